// The importer's decisions about parameters, reported in one line for each kind.
#pragma once

#include "ir/onnx/notes.h"

namespace isthmus::onnx_import {

// Kinds, in the order of the report.
enum class Decision : uint8_t {
  TiedByIdentity,
  TiedRearranged,
  TiedComputed,
  SplitEqual,
  SplitByRecords,
  OtherName,
  RestoredBias,
  LearnedInPlace,
  LearnedRow,
  LearnedNumber,
  LearnedConstantNode,
  NoGradient,
  LostDetach,
  FrozenNormScale,
  NotBySignature,
  NotComputed,
  NotComputedFromParameters,
  NotComputedFromRead,
  NotNumber,
  NotNamed,
  NotMask,
  NotTable,
  NotAverage,
  Lost,
};

class Decisions {
public:
  // `detail` follows the name: " of 'linear.weight'".
  void add(Decision kind, std::string name, std::string detail = "") {
    found_.push_back({kind, std::move(name), std::move(detail)});
  }
  void addAll(const Decisions &others) {
    found_.insert(found_.end(), others.found_.begin(), others.found_.end());
  }
  void tell(Notes &notes) const;

private:
  struct Found {
    Decision kind;
    std::string name, detail;
  };
  std::vector<Found> found_;
};

} // namespace isthmus::onnx_import
