"""Arrays of an .npz file, read only after a look at how large they claim to be."""

import io
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np

FREE = 2**30  # bytes that an archive may hold, however small it is itself
RATIO = 20  # bytes that a larger archive may hold per byte of its own
BROKEN = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    RuntimeError,  # encrypted, or compressed in an unknown way
    MemoryError,
    OverflowError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


class ArchiveError(ValueError):
    """The file is no whole archive of plain arrays; the text says why."""


def load_arrays(path: Path, *, packed: bool = True) -> dict[str, np.ndarray]:
    """All arrays of an .npz file, without unpickling anything.

    Args:
        path: The file.
        packed: Whether the arrays may be compressed. Otherwise they must not be larger than the
            file.

    Raises:
        ArchiveError: The file is damaged, or the arrays are too large.
    """
    try:
        content = path.read_bytes()  # NumPy leaves a damaged file open
        if content.startswith(b"\x93NUMPY"):
            raise ArchiveError("it is a single array")
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            total = sum(member.file_size for member in archive.infolist())
        most = max(FREE, RATIO * len(content)) if packed else len(content)
        if total > most:
            size, whole = f"{len(content):,} bytes", f"{total:,} bytes of arrays"
            raise ArchiveError(f"{size} that claim to hold {whole}, more than {most:,}")
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except ArchiveError:
        raise
    except BROKEN as error:
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise ArchiveError(reason) from None
