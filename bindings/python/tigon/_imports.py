"""What is done once a module is loaded, which a program may never do."""
import contextlib
import sys
from importlib.util import find_spec


class _Finder:
    """Finds one module as Python would, has it loaded within a context, and an action follow that."""

    def __init__(self, name, action, within):
        self.name, self.action, self.within = name, action, within

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)  # by the others, of which one may wait for the same module
        if spec:
            load = spec.loader.exec_module

            def exec_module(module):
                with self.within():
                    load(module)
                self.action()
            spec.loader.exec_module = exec_module
        return spec


def when_loaded(name, action, within=contextlib.nullcontext):
    """Calls action() now, if the module is loaded, or as soon as it is, which it will be within a context."""
    if name in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _Finder(name, action, within))
