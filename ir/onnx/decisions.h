// What the importer decided for the user, told in one line for each kind of decision.
#pragma once

#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace isthmus::onnx_import {

// Kinds, in the order in which they are told.
enum class Decision : uint8_t {
  TiedByIdentity,
  TiedRearranged,
  SplitEqual,
  SplitByRecords,
  OtherName,
  LearnedInPlace,
  LearnedNumber,
  LearnedConstantNode,
  FrozenNormScale,
  NotBySignature,
  NotComputed,
  NotComputedFromParameters,
  NotNumber,
  NotNamed,
  NotMask,
  NotTable,
  NotAverage,
  Lost,
};

class Decisions {
public:
  void add(Decision kind, std::string subject) { found_.push_back({kind, std::move(subject)}); }
  // "WHAT: SUBJECT, and N more".
  std::vector<std::string> notes() const;

private:
  struct Found {
    Decision kind;
    std::string subject;
  };
  std::vector<Found> found_;
};

} // namespace isthmus::onnx_import
