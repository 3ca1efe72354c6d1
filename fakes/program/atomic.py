"""Replace files atomically: a reader sees the old or the new file, even if the writer was killed.

There is no fsync: after a power failure the last write can be lost.
"""

import os
from pathlib import Path
from tempfile import NamedTemporaryFile


def replace_file(path: Path, data: bytes, scratch: Path | None = None) -> None:
    """Writes `data` to `path`, readable by its owner only. Raises OSError, and then leaves the old file.

    The temporary file is in `scratch`, a directory of the same file system, or next to the file with a dot before its
    name.
    """
    with NamedTemporaryFile(dir=scratch or path.parent, prefix=".drahealth-", delete=False) as draft:
        try:
            draft.write(data)
            draft.close()
            os.replace(draft.name, path)  # noqa: PTH105  (both names are strings)
        except BaseException:
            Path(draft.name).unlink(missing_ok=True)
            raise
