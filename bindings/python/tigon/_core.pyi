from typing import Any

version: str
operators: dict[str, Any]

def __getattr__(name: str) -> Any: ...
