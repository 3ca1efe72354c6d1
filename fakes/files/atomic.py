"""Files that are replaced as a whole, so that a reader, or a process after one that was killed, sees the old or the
new one. Nothing is forced onto the disk: a machine that loses its power may lose what was written last.
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
            os.replace(draft.name, path)  # noqa: PTH105  (one call, both names at hand)
        except BaseException:
            Path(draft.name).unlink(missing_ok=True)
            raise
