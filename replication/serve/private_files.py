"""Files with secrets: nobody but their owner and their group may read them."""

from pathlib import Path
from typing import Final

from replication.errors import SetupError

_OTHERS_MAY_READ: Final = 0o004


def check_private(key: str, file: str) -> None:
    """Checks that not every user of this machine may read *file*, which the setting *key* names.

    Raises:
        SetupError: They may, or there is no such file.
    """
    try:
        mode = Path(file).stat().st_mode
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SetupError(f"{key}: {file} cannot be read: {reason}") from error
    if mode & _OTHERS_MAY_READ:
        raise SetupError(
            f"{key}: every user of this machine may read {file}; chmod o= {file} (in a Secret of "
            "Kubernetes: defaultMode: 0440, and fsGroup)"
        )
