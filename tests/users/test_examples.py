"""Every example runs as a user would run it, in a process of its own, and says what it promises."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from slow_parameters import slow_unless
from tools import ROOT, child_environment, tool

EXAMPLES = ROOT / "examples"
SECONDS = 120


# by what the last line says: a pattern, and whether the numbers in it are good ones
BESIDE_NUMPY = {
    "autoencoder": (r"two numbers tell (\d+\.\d)% of the variance.*", lambda share: share > 60),
    "characters": (r"(\d+) of (\d+) words that it wrote.*", lambda known, all_: known > all_ / 2),
    "clusters": (
        r"where they come from: (\d+\.\d)% by k-means, (\d+\.\d)% by the mixture",
        lambda means, shares: 80 < means < shares and shares > 90,
    ),
    "kalman": (r".*: (\d+\.\d) times nearer", lambda times: times > 2),
    "minimum": (r"the minima differ by at most (\S+)", lambda off: off < 1e-3),
    "neural_ode": (
        r"points that were not seen end (\S+) from where they should, on ways of (\S+)",
        lambda off, way: off < 0.2 * way,
    ),
    "wave": (r"(\d+) steps of .* points, the same bits as NumPy", lambda steps: steps == 150),
}


def run_example(name: str, *arguments: str) -> str:
    """What an example prints.

    Raises:
        AssertionError: if it fails, with its output.
    """
    finished = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments],
        env=child_environment(OPENBLAS_NUM_THREADS="1"),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def last_line(output: str) -> str:
    return output.rstrip("\n").rpartition("\n")[2]


def accuracy_of(output: str) -> float:
    found = re.fullmatch(r"held-out accuracy: (\d{2,3}\.\d) %", last_line(output))
    assert found is not None, output
    return float(found[1])


def test_every_example_is_tested() -> None:
    tested = {"chain_rule", "digits", "heat", "logistic", "options", "pendulum", *BESIDE_NUMPY}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == tested


def test_deploy(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    tool("cc")
    output = run_example("deploy/deploy", "--epochs", "3", "--keep", str(tmp_path / "digits"))
    assert last_line(output) == "360 of 360 predictions agree with the session's"
    needed = subprocess.run(
        ["ldd", str(tmp_path / "digits" / "classify")], capture_output=True, text=True, check=True
    ).stdout
    assert "libdigits.so" in needed and "python" not in needed and "LLVM" not in needed
    (size,) = re.findall(r"C program with the library +([\d,]+)", output)
    assert int(size.replace(",", "")) < 500_000
    assert_the_same_in_cpp(tmp_path / "digits")


def assert_the_same_in_cpp(folder: Path) -> None:
    """The program in C++ is built without a warning and finds what that in C does."""
    source, program = EXAMPLES / "deploy" / "classify.cc", folder / "classify_cpp"
    search = ["-I", str(folder), "-L", str(folder), f"-Wl,-rpath,{folder}"]
    command = [tool("c++"), "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", str(source)]
    subprocess.run([*command, *search, "-ldigits", "-o", str(program)], check=True)
    arguments = [str(folder / "pixels.bin"), "360"]
    found = [
        subprocess.run([str(each), *arguments], capture_output=True, text=True, check=True).stdout
        for each in (folder / "classify", program)
    ]
    assert found[0] == found[1] and len(found[0].split()) == 360


def test_digits(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    package = tmp_path / "classifier"
    output = run_example("digits", "--export", str(package))
    assert accuracy_of(output) >= 97.0
    assert "360 of 360 predictions agree" in output
    assert "loaded without the compiler" in output
    assert "\r" not in output
    sizes = re.findall(r"([\d,]+) bytes (?:planned|if)", output)
    planned, unplanned = (int(size.replace(",", "")) for size in sizes)
    assert 0 < planned < unplanned
    import graphc as gx

    assert gx.aot.load(package)(np.zeros((3, 64), np.float32)).shape == (3,)


def test_logistic() -> None:
    pytest.importorskip("sklearn")
    output = run_example("logistic")
    assert accuracy_of(output) >= 95.0
    assert "worst radius" in output


def test_heat() -> None:
    output = run_example("heat", "--quick")
    assert re.fullmatch(r"settled after \d+ steps, the same bits as NumPy", last_line(output))


def test_chain_rule() -> None:
    found = re.fullmatch(
        r"(\d+) of (\d+) examples as derived by hand", last_line(run_example("chain_rule"))
    )
    assert found is not None and found[1] == found[2]


def test_options() -> None:
    found = re.fullmatch(
        r"Greeks of 10,000 options and their closed forms differ by at most (\S+)",
        last_line(run_example("options")),
    )
    assert found is not None and float(found[1]) < 1e-12


@slow_unless(lambda name: name in ("autoencoder", "clusters", "neural_ode", "wave"))
@pytest.mark.parametrize("name", BESIDE_NUMPY)
def test_beside_numpy(name: str) -> None:
    """Examples that hold a program of NumPy's, too: it goes the same way, to a good end."""
    pattern, is_good = BESIDE_NUMPY[name]
    output = run_example(name, "--quick")
    found = re.fullmatch(pattern, last_line(output))
    assert found is not None and is_good(*map(float, found.groups())), output
    # the loss of the same step, as both print it
    for own, numpys in re.findall(r"loss +([\d.]+), in NumPy +([\d.]+)", output):
        np.testing.assert_allclose(float(own), float(numpys), rtol=1e-4)


def test_pendulum() -> None:
    output = run_example("pendulum", "--quick")
    found = re.match(r"found to (\d+\.\d)%", last_line(output))
    assert found is not None and float(found[1]) < 2, output
