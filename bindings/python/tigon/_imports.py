"""What is done once a module is loaded, which a program may never do."""
import sys
from importlib.machinery import PathFinder


class _Finder:
    """Finds one module as Python would, and has an action follow its loading."""

    def __init__(self, name, action):
        self.name, self.action = name, action

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec:
            load = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (load(module), self.action())
        return spec


def when_loaded(name, action):
    """Calls action() now, if the module is loaded, or as soon as it is."""
    if name in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _Finder(name, action))
