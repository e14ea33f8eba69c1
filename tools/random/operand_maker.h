// Makes operands for calls from the values of a random graph.
#pragma once

#include "ir/builder.h"
#include "tools/random/random_graph.h"
#include "llvm/ADT/DenseMap.h"

namespace isthmus {

class OperandMaker {
public:
  // `dtype` is the graph's float type. The graph and the generator must outlive it.
  OperandMaker(Graph &g, Random &random, DType dtype, bool oddNames)
      : g_(g), b_(g), random_(random), dtype_(dtype), oddNames_(oddNames) {}

  // Later operands may be made from `v`.
  void keep(ValueId v) { kept_.push_back(v); }

  // A value of the type and range that operand `i` of `call` requires. `given`, if any, has its
  // dimensions.
  ValueId operand(const OpCall &call, size_t i, ValueId given);

  ValueId anyFloat(); // of the graph's type, and not empty

  // A smooth function of `v` within [low, high]; `v` itself if it is known to lie there.
  ValueId squashed(ValueId v, double low, double high);

  // An input whose initializer draws from [low, high).
  ValueId drawnInput(InputKind kind, const Type &type, double low, double high);

  std::string name(llvm::StringRef base); // sometimes odd

private:
  ValueId floatOperand(const Type &type, double low, double high, ValueId given, bool mayBeRaw);
  ValueId intOperand(const Type &type, int64_t bound);
  ValueId labels(const Type &type, int64_t bound);
  ValueId boolOperand(const Type &type);
  ValueId learned(const Type &type, double low, double high);
  ValueId drawnData(const Type &type, int64_t bound);
  ValueId dominant(ValueId matrices);
  ValueId shaped(ValueId v, llvm::ArrayRef<int64_t> dims);
  ValueId floatFor(int64_t elements); // a value from which `shaped` can make that many elements

  struct Interval {
    double low, high;
  };
  Graph &g_;
  Builder b_;
  Random &random_;
  const DType dtype_;
  const bool oddNames_;
  std::vector<ValueId> kept_;
  llvm::DenseMap<ValueId, Interval> within_; // known bounds
  llvm::DenseMap<ValueId, int64_t> below_;   // of integers in [0, bound)
};

} // namespace isthmus
