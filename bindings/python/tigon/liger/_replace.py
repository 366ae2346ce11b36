"""Tigon in the place of an installed Liger-Kernel's operators, by Liger's own registries, and back."""
import contextlib
import importlib
import os
import sys

from tigon._devices import KEYS

NAME = "tigon"
DEVICES = tuple(KEYS)
VARIABLE = "LIGER_KERNEL_IMPL"  # the implementation that a user wants, which Liger reads when it is imported and at each call

# Packages of Liger of which Tigon has what tigon.liger's of the same name exports, and the modules that load all of it.
PACKAGES = {
    "ops": (),
    "chunked_loss": ("liger_kernel.chunked_loss", "liger_kernel.chunked_loss.functional"),
    "megatron": ("liger_kernel.megatron",),
}

_swapped = {}  # (package, name): Liger's object, or None, while Tigon's is in its place
_added = set()  # names that liger_kernel.ops itself does not have


def apply(submodules=False):
    """Puts Tigon's operators in the place of liger_kernel's.

    What is imported from liger_kernel.ops, and from everything that stands on it, is Tigon's from then on, wherever the export list
    tigon.liger.ops.__all__ names it; what it does not name stays Liger's. So are the losses of liger_kernel.chunked_loss and what
    liger_kernel.megatron has, by the lists of tigon.liger.chunked_loss and tigon.liger.megatron. Modules of Liger that are loaded already follow. With submodules=True the modules liger_kernel.ops.<family>
    are Tigon's too, which Liger's own registry leaves alone.
    """
    with choice_set_aside():
        liger = importlib.import_module("liger_kernel.ops")
    exported = _exported()
    if not _swapped:
        _check_choice()
        _swapped.update({key: _original(liger, *key, value) for key, value in exported.items()})
        _added.update(name for package, name in exported if package == "ops" and not hasattr(liger, name))
        _register(liger)
    _swap({id(_swapped[key]): value for key, value in exported.items() if _swapped[key] is not None}, submodules)


def undo():
    """Puts Liger's own operators back, in every module of Liger that has Tigon's."""
    if not _swapped:
        return
    from tigon.liger import _dispatcher

    liger = sys.modules["liger_kernel.ops"]
    ours = _exported()
    _swap({id(ours[key]): original for key, original in _swapped.items() if original is not None}, submodules=True)
    for name in _added:
        delattr(liger, name)
    liger.backends.IMPL_REGISTRY.pop(NAME, None)
    _dispatcher.unregister()
    _swapped.clear()
    _added.clear()


def implementations():
    """What runs under each public name of liger_kernel's ops, chunked_loss, which has some of the same, and megatron: the module of its
    implementation."""
    names = {}
    public = {key: value for package in PACKAGES for key, value in _public(package).items()}
    for (package, name), value in {**_exported(), **public}.items():
        if package != "ops" and ("ops", name) in _exported():
            name = f"{package}.{name}"
        names[name] = _module_of(value)
    return names


def _exported():
    """{(package of Liger, name): Tigon's object}"""
    modules = {package: importlib.import_module(f"tigon.liger.{package}") for package in PACKAGES}
    return {(package, name): getattr(module, name) for package, module in modules.items() for name in module.__all__}


def _public(package):
    """The same of Liger's, if the package is loaded."""
    found = vars(sys.modules.get(f"liger_kernel.{package}", object)).items()
    return {(package, n): v for n, v in found if not n.startswith("_") and callable(v) and _module_of(v)}


def _module_of(value):
    """Where a class or function is from; of the apply of an autograd function, where that is."""
    return getattr(getattr(value, "__self__", None), "__module__", None) or getattr(value, "__module__", None)


def status():
    """Prints what runs under each name, and what stays Liger's."""
    applied = "in the place of liger_kernel's" if _swapped else "not applied: these names are those of tigon.liger.ops and liger_kernel.ops"
    print(f"Tigon's operators, {applied}")
    names = implementations()
    for name in sorted(names, key=lambda n: (not names[n].startswith("tigon."), n)):
        print(f"  {name:48} {names[name]}")


def _original(liger, package, name, value):
    """Liger's object of that name: from liger_kernel.ops, or from its module of the same family; None if it has none."""
    if package != "ops":
        return _original_in(package, name)
    if hasattr(liger, name):
        return getattr(liger, name)
    family = value.__module__.rpartition(".")[2]
    try:
        return getattr(importlib.import_module(f"liger_kernel.ops.{family}"), name, None)
    except ImportError:
        return None


def _original_in(package, name):
    """Liger's object of that name, from where it is in a package beside ops; None if it has none, or no such package."""
    try:
        for module in PACKAGES[package]:
            importlib.import_module(module)
    except ImportError:
        return None
    modules = (vars(m) for n, m in list(sys.modules.items()) if n.startswith(f"liger_kernel.{package}"))
    return next((found[name] for found in modules if name in found), None)


def choice():
    """What the user has chosen for Liger, as Liger reads it; "" is nothing."""
    return os.environ.get(VARIABLE, "").strip().lower()


@contextlib.contextmanager
def choice_set_aside():
    """For the import of Liger, which refuses a name that nobody has registered yet: Tigon can register when Liger is there."""
    if choice() != NAME:
        yield
        return
    chosen = os.environ.pop(VARIABLE)
    try:
        yield
    finally:
        os.environ[VARIABLE] = chosen


def _check_choice():
    if choice() not in ("", NAME):
        raise RuntimeError(f"{VARIABLE} is {choice()!r}, which Liger would take before Tigon: unset it, or set it to {NAME!r}")


def _register(liger):
    """In Liger's two registries: that of packages, whose rules replace the names of liger_kernel.ops, and that of single operators. In the
    first Tigon stands before all others: a device may be the default of several, of Liger's own on npu as well, and the first is taken."""
    from tigon.liger import _dispatcher

    registry = liger.backends.IMPL_REGISTRY
    others = dict(registry)
    registry.clear()
    info = liger.backends.ImplInfo(name=NAME, devices=DEVICES, default_devices=DEVICES, module_path="tigon.liger.ops")
    liger.backends.register_impl(info)
    registry.update(others)
    liger._replace_with_impl_ops()
    _dispatcher.register()


def _swap(replacements, submodules):
    """In the loaded modules of Liger, objects for others: {id of the one: the other}."""
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] != "liger_kernel" or (module_name.startswith("liger_kernel.ops.") and not submodules):
            continue
        for name, value in list(vars(module).items()):
            if id(value) in replacements:
                setattr(module, name, replacements[id(value)])
