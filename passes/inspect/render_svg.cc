// Runs Graphviz: no shell, no files; the text goes in and the picture comes out through pipes.

#include "passes/inspect/dot.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/Program.h"
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace isthmus {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  int read = -1, write = -1;
  ~Pipe() {
    closeRead();
    closeWrite();
  }
  bool open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      return false;
    read = ends[0];
    write = ends[1];
    return true;
  }
  void closeRead() { closeOne(read); }
  void closeWrite() { closeOne(write); }

private:
  static void closeOne(int &fd) {
    if (fd >= 0)
      ::close(fd);
    fd = -1;
  }
};

// Writing to a program that has ended must be an error here, not the end of us. Only this thread is
// asked to hold SIGPIPE back, and one that it raised is taken away again.
class NoSigpipe {
public:
  NoSigpipe() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    wasPending_ = sigismember(&pending, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set_, &old_);
  }
  ~NoSigpipe() {
    timespec now = {0, 0};
    if (!wasPending_)
      sigtimedwait(&set_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &old_, nullptr);
  }
  const sigset_t &old() const { return old_; }

private:
  sigset_t set_, old_;
  bool wasPending_;
};

struct Child {
  pid_t pid = -1;
  ~Child() {
    if (pid > 0) {
      kill(pid, SIGKILL);
      wait();
    }
  }
  int wait() {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    pid = -1;
    return status;
  }
};

int startChild(Child &child, const std::string &program, Pipe &in, Pipe &out, Pipe &err,
               const sigset_t &mask) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attrs;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attrs);
  auto cleanUp = llvm::make_scope_exit([&] {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attrs);
  });
  posix_spawn_file_actions_adddup2(&actions, in.read, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write, 1);
  posix_spawn_file_actions_adddup2(&actions, err.write, 2);
  posix_spawnattr_setsigmask(&attrs, &mask);
  posix_spawnattr_setflags(&attrs, POSIX_SPAWN_SETSIGMASK);
  std::string name = "dot", format = "-Tsvg";
  char *argv[] = {name.data(), format.data(), nullptr};
  return posix_spawn(&child.pid, program.c_str(), &actions, &attrs, argv, environ);
}

// Feeds and drains until both of the program's outputs are closed. False when the time is over.
bool exchange(llvm::StringRef input, Pipe &in, Pipe &out, Pipe &err, std::string &picture,
              std::string &talk, Clock::time_point deadline) {
  fcntl(in.write, F_SETFL, O_NONBLOCK);
  while (out.read >= 0 || err.read >= 0) {
    auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0)
      return false;
    pollfd fds[] = {{in.write, POLLOUT, 0}, {out.read, POLLIN, 0}, {err.read, POLLIN, 0}};
    if (poll(fds, 3, static_cast<int>(std::min<long long>(left, 1000))) < 0 && errno != EINTR)
      return false;
    if (fds[0].revents & (POLLOUT | POLLERR | POLLHUP)) {
      ssize_t n = ::write(in.write, input.data(), input.size());
      if (n > 0)
        input = input.drop_front(static_cast<size_t>(n));
      if (input.empty() || (n < 0 && errno != EAGAIN && errno != EINTR))
        in.closeWrite();
    }
    auto drain = [](pollfd &fd, Pipe &pipe, std::string &to) {
      if (!(fd.revents & (POLLIN | POLLHUP | POLLERR)))
        return;
      char buffer[1 << 16];
      ssize_t n = ::read(pipe.read, buffer, sizeof buffer);
      if (n > 0)
        to.append(buffer, static_cast<size_t>(n));
      else if (n == 0 || errno != EINTR)
        pipe.closeRead();
    };
    drain(fds[1], out, picture);
    drain(fds[2], err, talk);
  }
  return true;
}

} // namespace

llvm::Expected<std::string> renderSvg(llvm::StringRef dot, int limitSeconds) {
  auto program = llvm::sys::findProgramByName("dot");
  if (!program)
    return makeError(
        "the program 'dot' is not on the PATH: install Graphviz (the package graphviz), or write a "
        ".dot file and draw it elsewhere");
  NoSigpipe guard;
  Pipe in, out, err;
  Child child;
  if (!in.open() || !out.open() || !err.open())
    return makeError(ErrorKind::Device, "cannot make a pipe to '{0}': {1}", *program,
                     std::strerror(errno));
  if (int code = startChild(child, *program, in, out, err, guard.old()))
    return makeError(ErrorKind::Device, "cannot start '{0}': {1}", *program, std::strerror(code));
  in.closeRead();
  out.closeWrite();
  err.closeWrite();

  std::string picture, talk;
  if (!exchange(dot, in, out, err, picture, talk,
                Clock::now() + std::chrono::seconds(limitSeconds)))
    return makeError("'dot' did not lay out the graph within {0} seconds; write a .dot file and "
                     "give it more time "
                     "(dot -Tsvg G.dot -o G.svg), or draw a smaller graph",
                     limitSeconds);
  int status = child.wait();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || picture.empty())
    return makeError("'dot' failed{0}{1}", talk.empty() ? "" : ": ",
                     llvm::StringRef(talk).split('\n').first);
  return picture;
}

} // namespace isthmus
