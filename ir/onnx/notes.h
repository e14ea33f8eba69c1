// Notes for the user about an import: one line for each kind, with a count.
#pragma once

#include "ir/diagnostics.h"
#include <map>
#include <string>
#include <vector>

namespace isthmus::onnx_import {

class Notes {
public:
  // A note of its own kind. The same text is reported once.
  void add(const std::string &text) { add(text, "", text); }
  // `text` is the note about `subject`; `otherwise`, if it names an option, says how to change the
  // decision. Several notes of one `kind` become one line: the first text, with the subjects of the
  // others.
  void add(const std::string &kind, const std::string &subject, const std::string &text,
           const Remedy &otherwise = {});

  // Ordered by the first note of each kind.
  std::vector<Remark> lines() const;

private:
  struct Line {
    std::string text;
    Remedy otherwise;
    std::vector<std::string> others; // subjects, the first few
    size_t more = 0;                 // number of others, including those not in `others`
  };
  std::vector<Line> lines_;
  std::map<std::string, size_t> index_; // by kind
};

} // namespace isthmus::onnx_import
