"""Tests of tools/pgo: the choice of llvm-profdata, the flags that are kept, and a build without a profile. cargo and rustc are invented; nothing is built."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Dict, List

REPOSITORY = Path(__file__).resolve().parents[2]
TRIPLE = "x86_64-unknown-linux-gnu"

RUSTC = """\
#!/bin/sh
case "$*" in
-vV) printf 'host: %s\\nLLVM version: 99.1.2\\n' """ + TRIPLE + """ ;;
*) echo "$SCRATCH/sysroot/lib" ;;
esac
"""

#: Prints the flags that it has, and "builds" a server that prints them.
CARGO = """\
#!/bin/sh
case "$*" in
*"config get target") echo "${TARGET_FLAGS-}"; exit ;;
*"--target-dir "*) directory=${*##*--target-dir } ;;
esac
said=$(printf '%s' "${CARGO_ENCODED_RUSTFLAGS-unset}" | tr '\\037' '|')
[ "$1" != --config ] || said="$said $2"
mkdir -p "$directory/""" + TRIPLE + """/release"
echo "$said" >"$directory/""" + TRIPLE + """/release/sluice"
"""


#: Stands for the training: writes where the flag of the instrumented build, which that server prints, says.
TRAINING = """\
#!/bin/sh
raw=$(sed -n "s/.*profile-generate=\\([^']*\\).*/\\1/p" "$1")
mkdir -p "$raw"
echo counts >"$raw/1.profraw"
"""

#: Merges what is there.
PROFDATA = """\
#!/bin/sh
[ "$1" = --version ] && echo 'LLVM version 99.1.2' && exit
cat "$5"/* >"$4"
"""


class TheProfile(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.scratch = Path(directory.name)
        self.profile = self.scratch / "old.profdata"
        self.profile.write_text("")
        self.write("rustc", RUSTC)
        self.write("cargo", CARGO)
        self.write("sysroot/lib/libprofiler_builtins-1.rlib", "")

    def write(self, name: str, text: str) -> Path:
        path = self.scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def profdata(self, name: str, version: str) -> Path:
        return self.write(name, f"#!/bin/sh\necho '  LLVM version {version}'\n")

    def pgo(self, *arguments: str, directory: Path = REPOSITORY, **environment: str) -> "subprocess.CompletedProcess[str]":
        keep = {"PATH": f"{self.scratch}:/usr/bin:/bin", "SCRATCH": str(self.scratch), "CARGO_TARGET_DIR": str(self.scratch / "target")}
        return subprocess.run(
            [str(REPOSITORY / "tools" / "pgo"), *arguments], cwd=directory, env={**keep, **environment}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def flags(self, **environment: str) -> str:
        done = self.pgo("host", str(self.scratch / "out" / "sluice"), PGO_PROFILE=str(self.profile), **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return (self.scratch / "out" / "sluice").read_text().strip()

    def test_the_llvm_profdata_of_rustup_comes_first(self) -> None:
        self.profdata("llvm-profdata-99", "99.1.8")
        self.assertIn("/llvm-profdata-99", self.pgo("--profdata").stdout)
        self.profdata("sysroot/bin/llvm-profdata", "99.1.2-rust")
        self.assertIn("sysroot/lib/../bin/llvm-profdata", self.pgo("--profdata").stdout)

    def test_one_of_another_version_is_not_used(self) -> None:
        self.profdata("llvm-profdata", "9.9.0")
        self.profdata("llvm-profdata-99", "100.0.0")
        done = self.pgo("--profdata")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no llvm-profdata of LLVM 99", done.stdout)

    def without(self, **environment: str) -> List[str]:
        program = self.scratch / "out" / "sluice"
        done = self.pgo(TRIPLE, str(program), **environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(program.read_text(), "unset\n")
        self.assertFalse(program.with_name("sluice.profdata").exists())
        return done.stdout.splitlines()

    def test_without_llvm_profdata_the_server_is_built_and_one_line_says_so(self) -> None:
        (line,) = self.without()
        self.assertRegex(line, "without a profile: no llvm-profdata of LLVM 99")

    def test_without_the_profiler_of_rustc_too(self) -> None:
        (self.scratch / "sysroot/lib/libprofiler_builtins-1.rlib").unlink()
        self.profdata("llvm-profdata-99", "99.1.2")
        (line,) = self.without()
        self.assertIn(f"no profiler for {TRIPLE}", line)
        self.assertEqual(self.without(PGO="0"), ["Built without a profile: PGO=0"])

    def test_a_training_is_made_once_for_an_instrumented_server(self) -> None:
        self.write("llvm-profdata-99", PROFDATA)
        self.write("make", "#!/bin/sh\n")
        training = self.write("tools/pgo-training", TRAINING)
        program = self.scratch / "sluice"
        said = []
        for _ in range(2):
            # cargo leaves a program alone that is built already.
            done = self.pgo("host", str(program), directory=self.scratch)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(program.with_name("sluice.profdata").read_text(), "counts\n")
            self.assertIn(f"-Cprofile-use={self.scratch}/target/pgo/{TRIPLE}.profdata", program.read_text())
            said.append("Training: requests of each kind" in done.stdout)
            for older in (training, *self.scratch.glob("target/pgo/instrumented/*/release/sluice")):
                os.utime(older, (1_700_000_000, 1_700_000_000))
            self.write("cargo", CARGO.replace("echo \"$said\"", "[ -e \"$directory/" + TRIPLE + "/release/sluice\" ] || echo \"$said\""))
        self.assertEqual(said, [True, False])
        self.assertEqual(list(self.scratch.glob("target/pgo/*.raw")), [])

    def test_flags_of_the_user_are_kept(self) -> None:
        use = f"-Cprofile-use={self.profile}"
        environments: Dict[str, Dict[str, str]] = {
            f"-Ca=b|-Cc|{use}": {"CARGO_ENCODED_RUSTFLAGS": "-Ca=b\x1f-Cc", "RUSTFLAGS": "-Cnot"},
            f"-Ca=b|-Cd|{use}": {"RUSTFLAGS": " -Ca=b  -Cd "},
            f"unset build.rustflags = ['{use}']": {},
            f"unset target.{TRIPLE}.rustflags = ['{use}']": {"TARGET_FLAGS": f'target.{TRIPLE}.rustflags = ["-Ca"]'},
        }
        for expected, environment in environments.items():
            with self.subTest(expected):
                self.assertEqual(self.flags(**environment), expected)
        self.assertTrue((self.scratch / "out" / "sluice.profdata").is_file())


if __name__ == "__main__":
    unittest.main()
