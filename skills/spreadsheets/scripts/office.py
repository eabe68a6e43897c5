"""LibreOffice, where it is installed: it computes the formulas of a workbook in a process of its own."""

import glob
import os
import shutil
import subprocess
import sys
from pathlib import Path

# Time limit in seconds, below that of a command, so that the script can report it.
LIMIT = 100
FOLDERS = ("/usr/lib/libreoffice/program", "/usr/lib64/libreoffice/program", "/opt/libreoffice*/program")
LIBRARIES = ("libsofficeapp.so", "libmergedlo.so")
ADVICE = "install LibreOffice Calc (on Debian and Ubuntu: apt install libreoffice-calc), or open the file in a spreadsheet program and save it"
# Compute all formulas when a file is opened, run no macros, fetch nothing.
SETTINGS = (
    ("Calc/Formula/Load", "OOXMLRecalcMode", 0),
    ("Calc/Content/Update", "Link", 2),
    ("Common/Security/Scripting", "DisableMacrosExecution", "true"),
    ("Common/Security/Scripting", "BlockUntrustedRefererLinks", "true"),
    ("Common/Security/Scripting", "MacroSecurityLevel", 3),
)


class NotComputed(Exception):
    """The reason why formulas have no values, with what to do."""


def library():
    """Path of LibreOffice's library, or None. The variable LIBREOFFICE names its folder, if it is in none of the usual ones."""
    programs = [shutil.which(name) for name in ("soffice", "libreoffice")]
    folders = [os.path.dirname(os.path.realpath(program)) for program in programs if program]
    folders += [found for pattern in FOLDERS for found in sorted(glob.glob(pattern), reverse=True)]
    for folder in [os.environ["LIBREOFFICE"]] if "LIBREOFFICE" in os.environ else folders:
        for name in LIBRARIES:
            if os.path.exists(os.path.join(folder, name)):
                return os.path.join(folder, name)
    return None


def compute(source, folder):
    """Writes a copy of a workbook with the values of all its formulas into this empty folder."""
    found = library()
    if found is None:
        raise NotComputed(f"LibreOffice is not installed; {ADVICE}")
    folder = Path(folder).resolve()
    copy, made, profile = folder / f"in{Path(source).suffix.lower()}", folder / "out.xlsx", folder / "profile"
    shutil.copyfile(source, copy)
    settle(profile)
    command = [sys.executable, "-I", str(Path(__file__).with_name("kit.py")), found, profile.as_uri(), copy.as_uri(), made.as_uri()]
    # The system's list of extensions is below /var, which the sandbox hides; LibreOffice ends if it cannot read it.
    place = {"HOME": str(folder), "TMPDIR": str(folder), "PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "SAL_USE_VCLPLUGIN": "svp",
             "UNO_SHARED_PACKAGES_CACHE": (folder / "shared").as_uri()}  # fmt: skip
    try:
        ran = subprocess.run(command, cwd=folder, env=place, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired as error:
        raise NotComputed(f"LibreOffice took longer than {LIMIT} seconds; work on a part of the file") from error
    if ran.returncode or not made.exists():
        last = ran.stderr.decode(errors="replace").strip().split("\n")[-1]
        raise NotComputed(f"LibreOffice could not open it ({last[:200] or f'exit code {ran.returncode}'}); {ADVICE}")
    return made


def settle(profile):
    """Writes the settings of a profile."""
    items = "".join(
        f'<item oor:path="/org.openoffice.Office.{path}"><prop oor:name="{name}" oor:op="fuse"><value>{value}</value></prop></item>'
        for path, name, value in SETTINGS
    )
    (profile / "user").mkdir(parents=True)
    (profile / "user/registrymodifications.xcu").write_text(
        f'<?xml version="1.0" encoding="UTF-8"?>\n<oor:items xmlns:oor="http://openoffice.org/2001/registry">{items}</oor:items>\n', encoding="utf-8"
    )
