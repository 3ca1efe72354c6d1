"""The JUnit file of an interrupted run: pytest writes only the tests that ended, which reads as a success."""

from pathlib import Path
from xml.etree import ElementTree as ET


def add_interruption(path: Path) -> None:
    """Adds a test case with an error to a file that pytest wrote."""
    tree = ET.parse(path)
    for suite in tree.iter("testsuite"):
        case = ET.SubElement(suite, "testcase", classname="drahealth.run", name="complete run")
        ET.SubElement(case, "error", message="the run was interrupted")
        for count in ("tests", "errors"):
            suite.set(count, str(int(suite.get(count, "0")) + 1))
    tree.write(path, encoding="utf-8", xml_declaration=True)
