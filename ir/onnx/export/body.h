// Standard operators that compute one row: they replace its node, or form the function that its
// node calls.
#pragma once

#include "ir/onnx/rows.h"

namespace isthmus::onnx_export {

// The name of a value in the body.
using Name = std::string;

// A value's name and type.
struct Known {
  Name name;
  Type type;
};

Ints sequence(int64_t from, int64_t to); // from, from + 1, ..., below `to`

class Body {
public:
  using AttrItem = std::pair<llvm::StringRef, Attr>;

  // The names of new values begin with `prefix`.
  explicit Body(Name prefix = "") : prefix_(std::move(prefix)) {}

  std::vector<onnx::NodeProto> nodes;
  std::vector<onnx::TensorProto> constants; // each is read, by its name, by some node

  // Adds a node and returns its first result. An empty name is an operand left out.
  Name emit(llvm::StringRef op, llvm::ArrayRef<Name> operands, llvm::ArrayRef<AttrItem> attrs = {});
  std::vector<Name> emitAll(llvm::StringRef op, llvm::ArrayRef<Name> operands, size_t results,
                            llvm::ArrayRef<AttrItem> attrs = {});
  onnx::NodeProto &last() { return nodes.back(); }

  // Adds a Scan over the first axis of `xs`. `turn` maps the states and one element of each of `xs`
  // to the next states and the elements to concatenate. Returns the last states and the
  // concatenated results.
  using Turn = llvm::function_ref<std::vector<Name>(Body &, const std::vector<Name> &)>;
  std::vector<Name> scan(std::vector<Name> states, llvm::ArrayRef<Name> xs, Turn turn);

  // Constants.
  Name ints(llvm::ArrayRef<int64_t> values); // i64[n]
  Name integer(int64_t value);               // i64[]
  Name number(DType type, double value);     // rank 0
  Name tensor(const Tensor &t);

  // Renames the values `made` to `results`. A value that is also an operand, a constant or another
  // result gets an Identity instead.
  void finish(llvm::ArrayRef<Name> made, llvm::ArrayRef<Name> results);

private:
  Name fresh() { return prefix_ + "t_" + std::to_string(next_++); }
  Name prefix_;
  unsigned next_ = 0;
};

onnx::TensorProto tensorProto(const Tensor &t, const std::string &name); // data inline

// The context of a row's writer.
struct RowWriter {
  Body &b;
  const Attrs &attrs;
  llvm::ArrayRef<Known> operands;
  llvm::ArrayRef<Type> results;

  const Name &x(size_t i) const { return operands[i].name; }
  const Type &type(size_t i) const { return operands[i].type; }
  bool has(size_t i) const { return i < operands.size(); }
  DType dtype(size_t i = 0) const { return operands[i].type.dtype; }
  Name number(double v) const { return b.number(dtype(), v); } // of operand 0's type
  // The type for sums and products of operand 0: ONNX has none in eight bits. The low bits are the
  // same, so a cast back gives the exact result.
  DType wide() const { return dtype() == DType::U8 ? DType::I32 : dtype(); }
  Name reshape(const Name &v, llvm::ArrayRef<int64_t> dims) const;
  Name transpose(const Name &v, const Ints &perm) const; // `v` itself for the identity
  Name cast(const Name &v, DType from, DType to) const;  // `v` itself if they are equal
  // All steps are 1 by default.
  Name slice(const Name &v, const Ints &starts, const Ints &limits, const Ints &axes,
             const Ints &steps = {}) const;
};

// Returns the names of the results; empty if this writer cannot write the call (another one may).
using WriteRow = std::vector<Name> (*)(const RowWriter &);

struct ExportRow {
  llvm::StringRef row;
  WriteRow write;
  // Whether some operand may remain unread. Otherwise an unread operand is taken as one that the
  // row gained after its writer was written, and there is no body rather than a wrong one.
  bool mayIgnore = false;
};
using ExportRows = llvm::ArrayRef<ExportRow>;
ExportRows elementwiseRows(); // rows_elementwise.cc
ExportRows shapeRows();
ExportRows windowRows();
ExportRows normRows();
ExportRows lossRows();
ExportRows indexingRows();
ExportRows scanRows();
ExportRows randomRows();
ExportRows transferRows();

// Writes one row into `b`: with its writer from the table, else as the rows of its expansion.
// Nothing if it has neither.
std::optional<std::vector<Name>> writeRow(Body &b, const OpDef &op, const Attrs &attrs,
                                          llvm::ArrayRef<Known> operands,
                                          llvm::ArrayRef<Type> results);

} // namespace isthmus::onnx_export
