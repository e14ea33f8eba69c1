#include "tools/cli/console.h"

#include "tools/cli/exit.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include <cerrno>
#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>

namespace isthmus {
namespace {
bool isTerminal() { return isatty(STDERR_FILENO) != 0; }
bool wantsColour() {
  const char *no = std::getenv("NO_COLOR");
  return isTerminal() && !(no && *no);
}

size_t terminalColumns() {
  constexpr size_t kUsual = 80;
  struct winsize size = {};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

// Control characters, which names may hold and which would command the terminal, become a backslash
// and two hexadecimal digits, as in the text form.
std::string shown(llvm::StringRef text) {
  std::string out;
  auto isControl = [&](size_t i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool isC1 = i > 0 && text[i - 1] == '\xc2' && c >= 0x80 && c < 0xa0; // in UTF-8
    return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f || isC1;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const bool startsC1 = text[i] == '\xc2' && i + 1 < text.size() && isControl(i + 1);
    if (isControl(i) || startsC1)
      out += "\\" + llvm::toHex(text.substr(i, 1), /*LowerCase=*/true);
    else
      out += text[i];
  }
  return out;
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

const std::string &processName() { return Console::get().process_; }

Console &Console::get() {
  static Console console;
  return console;
}

std::string Console::paint(const char *colour, const std::string &text) const {
  return wantsColour() ? "\033[" + std::string(colour) + "m" + text + "\033[0m" : text;
}

void Console::setProcess(std::string name, bool speaks) {
  process_ = std::move(name);
  speaks_ = speaks;
}

void Console::clearBar() {
  if (barShown_)
    talk("\r\033[K");
  barShown_ = false;
}

void Console::note(const Remark &remark) {
  const std::string text = shown(remark.text + flagsText(remark.remedies));
  if (quiet_ || !speaks_ || !told_.insert(text).second)
    return;
  clearBar();
  talk(paint("36", "note: ") + text + "\n");
}

void Console::line(const std::string &text) {
  if (!speaks_)
    return;
  clearBar();
  talk(shown(text) + "\n");
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
          os << process_ << (each.where.empty() ? "" : paint("1", shown(each.where) + ": "))
             << paint("1;31", "error: ") << shown(each.message + flagsText(each.remedies)) << '\n'
             << each.excerpt;
          if (!each.excerpt.empty() && each.excerpt.back() != '\n')
            os << '\n';
          for (const Note &n : each.notes)
            os << (n.where.empty() ? "" : paint("1", shown(n.where) + ": ")) << paint("36", "note: ")
               << shown(n.message) << '\n';
        }
      },
      [&](const llvm::ErrorInfoBase &other) {
        os << process_ << paint("1;31", "error: ") << shown(other.message()) << '\n';
      });
  talk(os.str());
  return code;
}

ProgressBar::ProgressBar(std::string what, size_t total)
    : what_(std::move(what)), total_(total), start_(std::chrono::steady_clock::now()),
      last_(start_) {}

ProgressBar::~ProgressBar() { Console::get().clearBar(); }

void ProgressBar::at(size_t done, llvm::ArrayRef<std::string> details) {
  Console &console = Console::get();
  bool plain = console.progress_ == Progress::Plain;
  if (!console.speaks_ || console.progress_ == Progress::None || (!plain && (!isTerminal() || std::getenv("NO_COLOR"))))
    return;
  auto now = std::chrono::steady_clock::now();
  auto every = plain ? std::chrono::milliseconds(5000) : std::chrono::milliseconds(100);
  if (now - last_ < every || now - start_ < std::chrono::milliseconds(500))
    return;
  last_ = now;
  unsigned percent = total_ ? static_cast<unsigned>(100 * done / total_) : 100;
  std::vector<std::string> parts(details.begin(), details.end());
  parts.push_back(secondsText(std::chrono::duration<double>(now - start_).count()));
  const std::string name = console.task_.empty() ? what_ : console.task_ + ": " + what_;
  if (plain) {
    talk(llvm::formatv("{0}: {1} of {2} ({3} %), {4}\n", name, done, total_, percent,
                       llvm::join(parts, ", "))
             .str());
    return;
  }
  talk("\r\033[K" + barText(name, percent, parts));
  console.barShown_ = true;
}

std::string ProgressBar::barText(const std::string &name, unsigned percent,
                                 llvm::ArrayRef<std::string> details) {
  constexpr size_t kBar = 30, kLeastBar = 8;
  const size_t columns = terminalColumns() - 1; // the cursor stays after the text
  std::string text = llvm::formatv(" {0} %", percent).str();
  for (const std::string &part : details)
    if (name.size() + text.size() + part.size() + 2 <= columns)
      text += "  " + part;
  const size_t left = columns - std::min(columns, name.size() + text.size() + 3); // " [" and "]"
  if (left < kLeastBar)
    return (name + text).substr(0, columns);
  const size_t width = std::min(left, kBar);
  std::string bar(percent * width / 100, '#');
  bar.resize(width, '.');
  return name + " [" + bar + "]" + text;
}

} // namespace isthmus
