"""Names in the records, in the order of the tables' columns."""

MODES = ("forward", "backward", "full")
ALLOCATORS = ("kept", "default")  # "kept": what was allocated is kept for the next call
PEERS = ("eager", "compile")
