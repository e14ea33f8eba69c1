#include "tools/cli/console.h"

#include "tools/cli/exit.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include <cerrno>
#include <cstdlib>
#include <unistd.h>

namespace isthmus {
namespace {
bool isTerminal() { return isatty(STDERR_FILENO) != 0; }
bool wantsColour() {
  const char *no = std::getenv("NO_COLOR");
  return isTerminal() && !(no && *no);
}
} // namespace

void talk(llvm::StringRef text) {
  while (!text.empty()) {
    ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return;
    text = text.drop_front(static_cast<size_t>(n));
  }
}

Console &Console::get() {
  static Console console;
  return console;
}

std::string Console::paint(const char *colour, const std::string &text) const {
  return wantsColour() ? "\033[" + std::string(colour) + "m" + text + "\033[0m" : text;
}

void Console::clearBar() {
  if (barShown_)
    talk("\r\033[K");
  barShown_ = false;
}

void Console::note(const Remark &remark) {
  const std::string text = remark.text + flagsText(remark.remedies);
  if (quiet_ || !told_.insert(text).second)
    return;
  clearBar();
  talk(paint("36", "note: ") + text + "\n");
}

void Console::line(const std::string &text) {
  clearBar();
  talk(text + "\n");
}

int Console::report(llvm::Error e) {
  clearBar();
  int code = 1;
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::handleAllErrors(
      std::move(e),
      [&](const DiagError &d) {
        code = exitCodeOf(d);
        for (const Diag &each : d.diags) {
          os << (each.where.empty() ? "" : paint("1", each.where + ": "))
             << paint("1;31", "error: ") << each.message << flagsText(each.remedies) << '\n'
             << each.excerpt;
          if (!each.excerpt.empty() && each.excerpt.back() != '\n')
            os << '\n';
          for (const Note &n : each.notes)
            os << (n.where.empty() ? "" : paint("1", n.where + ": ")) << paint("36", "note: ")
               << n.message << '\n';
        }
      },
      [&](const llvm::ErrorInfoBase &other) {
        os << paint("1;31", "error: ") << other.message() << '\n';
      });
  talk(os.str());
  return code;
}

ProgressBar::ProgressBar(std::string what, size_t total)
    : what_(std::move(what)), total_(total), start_(std::chrono::steady_clock::now()),
      last_(start_) {}

ProgressBar::~ProgressBar() { Console::get().clearBar(); }

void ProgressBar::at(size_t done) {
  Console &console = Console::get();
  bool plain = console.progress_ == Progress::Plain;
  if (console.progress_ == Progress::None || (!plain && (!isTerminal() || std::getenv("NO_COLOR"))))
    return;
  auto now = std::chrono::steady_clock::now();
  auto every = plain ? std::chrono::milliseconds(5000) : std::chrono::milliseconds(100);
  if (now - last_ < every || now - start_ < std::chrono::milliseconds(500))
    return;
  last_ = now;
  unsigned percent = total_ ? static_cast<unsigned>(100 * done / total_) : 100;
  std::string elapsed = secondsText(std::chrono::duration<double>(now - start_).count());
  if (plain) {
    talk(llvm::formatv("{0}: {1} of {2} ({3} %), {4}\n", what_, done, total_, percent, elapsed)
             .str());
    return;
  }
  std::string bar(percent * 30 / 100, '#');
  bar.resize(30, '.');
  talk(llvm::formatv("\r\033[K{0} [{1}] {2} %  {3}", what_, bar, percent, elapsed).str());
  console.barShown_ = true;
}

} // namespace isthmus
