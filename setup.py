"""What pyproject.toml cannot say: which platform a wheel is for.

graphc is written in Python alone, so its wheel would be tagged for any machine, but the code that
it makes runs on Linux on x86-64 only. Tagged so, the wheel is refused by an installer elsewhere,
where otherwise the first session would be. The policy asks for less than any C library of today.
"""

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel


class LinuxWheel(bdist_wheel):
    """A wheel for any Python 3 on one platform."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", "manylinux_2_17_x86_64"


setup(cmdclass={"bdist_wheel": LinuxWheel})
