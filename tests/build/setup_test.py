"""Tests tools/setup with spaces and quotes in the path of the cache, and without HOME."""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOLS = os.path.dirname(os.path.abspath(sys.argv.pop(1)))


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.root = os.path.join(self.folder, "a clone")
        os.makedirs(os.path.join(self.root, "tools"))
        for name in "setup", "home.sh", "requirements.txt", "requirements-corpus.txt":
            shutil.copy(os.path.join(TOOLS, name), os.path.join(self.root, "tools", name))

    def run_setup(self, cache, **variables):
        os.makedirs(os.path.join(cache, "isthmus/onnx-1.22.0"))  # nothing is to be fetched
        environment = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME")}
        done = subprocess.run([os.path.join(self.root, "tools/setup")], capture_output=True, text=True, env={**environment, **variables})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(os.path.join(self.root, ".bazelrc.system")) as file:
            return [shlex.split(line, comments=True) for line in file]

    def test_a_cache_whose_path_has_spaces_and_quotes(self):
        cache = os.path.join(self.folder, 'my "cache"')
        lines = self.run_setup(cache, XDG_CACHE_HOME=cache)
        self.assertIn(["build", f"--disk_cache={cache}/isthmus/bazel"], lines)
        self.assertIn(["common", f"--override_repository=onnx_wheel={cache}/isthmus/onnx-1.22.0"], lines)
        self.assertIn(["common", f"--override_repository=rules_cc={self.root}/third_party/rules_cc"], lines)

    def test_a_user_without_a_home(self):
        """HOME is that of the user's entry in the password file; where there is none, the error says what to do."""
        script = f"unset HOME; . {shlex.quote(TOOLS)}/home.sh; echo $HOME"
        done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, os.path.expanduser("~") + "\n"))
        done = subprocess.run(["bash", "-euc", "getent() { :; }; " + script], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("error: HOME is not set", done.stderr)
        self.run_setup(os.path.join(self.folder, "cache"), XDG_CACHE_HOME=os.path.join(self.folder, "cache"))


if __name__ == "__main__":
    unittest.main()
