"""The type of what functions take."""

import sys

if sys.version_info >= (3, 12):
    from collections.abc import Buffer
else:
    from typing import Any as Buffer

__all__ = ["Buffer"]
