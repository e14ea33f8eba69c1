// What the user should know of an import: one line for each kind of thing, with a count.
#pragma once

#include "ir/diagnostics.h"
#include <map>
#include <string>
#include <vector>

namespace isthmus::onnx_import {

class Notes {
public:
  // A note of its own; the same text twice is told once.
  void add(const std::string &text) { add(text, "", text); }
  // `text` tells it of `subject`, and `otherwise`, if it names an option, how to have it otherwise.
  // Of several notes of one `kind` the first is told, with the subjects of the others.
  void add(const std::string &kind, const std::string &subject, const std::string &text,
           const Remedy &otherwise = {});

  // In the order of the first of each kind.
  std::vector<Remark> lines() const;

private:
  struct Line {
    std::string text;
    Remedy otherwise;
    std::vector<std::string> others; // subjects, the first few
    size_t more = 0;                 // how many others there are
  };
  std::vector<Line> lines_;
  std::map<std::string, size_t> index_; // by kind
};

} // namespace isthmus::onnx_import
