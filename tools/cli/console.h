// Messages of the command line to a person: errors, notes, summaries and progress, all on stderr.
// Text that stderr does not take is lost without further effect.
#pragma once

#include "ir/diagnostics.h"
#include "ir/units.h"
#include "llvm/ADT/ArrayRef.h"
#include <chrono>
#include <set>
#include <string>

namespace isthmus {

enum class Progress { Auto, Plain, None };

// Writes to stderr as much as it takes. Allocates no memory.
void talk(llvm::StringRef text);

// What precedes the errors of this process, such as "rank 1 on node7: " where several processes run
// one command; empty if it is alone.
const std::string &processName();

class Console {
public:
  static Console &get();

  void setProgress(Progress p) { progress_ = p; }
  void setTask(const std::string &task) { task_ = task; } // named before bars; may be empty
  void setQuiet(bool quiet) { quiet_ = quiet; }           // notes are not printed
  // One of several processes that run one command. Only the one that speaks prints more than errors.
  void setProcess(std::string name, bool speaks);

  void note(const Remark &remark);    // each text once; remedies as flags
  void line(const std::string &text); // unchanged
  // Prints the error and returns its exit code.
  int report(llvm::Error e);

private:
  friend class ProgressBar;
  friend const std::string &processName();
  std::string paint(const char *colour, const std::string &text) const;
  void clearBar();

  Progress progress_ = Progress::Auto;
  bool barShown_ = false, quiet_ = false, speaks_ = true;
  std::string process_;
  std::set<std::string> told_; // notes
  std::string task_;
};

// A bar for work of a known length. On a terminal it takes one line, however narrow the terminal;
// with --progress=plain it is a line every few seconds. Quick work shows nothing.
class ProgressBar {
public:
  ProgressBar(std::string what, size_t total);
  ~ProgressBar();
  // `details`, most important first, follow if there is room.
  void at(size_t done, llvm::ArrayRef<std::string> details = {});

private:
  static std::string barText(const std::string &name, unsigned percent,
                             llvm::ArrayRef<std::string> details);

  std::string what_;
  size_t total_;
  std::chrono::steady_clock::time_point start_, last_;
};

} // namespace isthmus
