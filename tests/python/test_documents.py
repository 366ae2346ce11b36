"""The python blocks of the pages for users of PyTorch, one after the other, but for those that a comment before them says are not run; the
comments of a block that begin a line are what it prints."""
import os
import re

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.mark.parametrize("page", ["README.md", "docs/python.md", "docs/liger.md"])
def test_blocks(page, capsys):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        found = re.findall(r"^(<!-- not run: [^\n]+ -->\n)?```python\n(.*?)^```", file.read(), flags=re.S | re.M)
    blocks = [block for not_run, block in found if not not_run]
    assert blocks
    names = {}
    for block in blocks:
        exec(block, names)
        expected = re.findall(r"^# (.*)$", block, flags=re.M)
        if expected:
            assert capsys.readouterr().out.splitlines() == expected
