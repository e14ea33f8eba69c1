// The encoding of op table rows in the ONNX files that Isthmus writes.
//
// A node of domain `ai.isthmus` is a row: its operator is the row's name, with a suffix ".2", ".3"
// if the file has several function bodies for it, and its attributes are the row's. A standard
// operator that is exactly one row stores that row in its metadata. The kinds of the graph's
// inputs, and all other facts that ONNX cannot express, are metadata too.
#pragma once

#include "ir/graph.h"
#include "onnx/onnx.pb.h"

namespace isthmus::onnx_rows {

constexpr llvm::StringLiteral kDomain("ai.isthmus");
constexpr int64_t kDomainVersion = 1;

// Keys of metadata.
constexpr llvm::StringLiteral kFormat("isthmus.format"); // of the model: encoding version
constexpr llvm::StringLiteral kMeta("isthmus.meta.");    // of the model: a fact about the graph
constexpr llvm::StringLiteral kRecord("isthmus.record"); // of the model: GraphRecord, from format 2
constexpr llvm::StringLiteral kLoss("isthmus.loss");     // of the model
constexpr llvm::StringLiteral kGradient("isthmus.gradient"); // of an output: whose gradient it is
constexpr llvm::StringLiteral kNext("isthmus.next");         // of an output: of which state
constexpr llvm::StringLiteral kOrder("isthmus.order");       // of a gradient, if it is not 1
constexpr llvm::StringLiteral kRounded("isthmus.rounded"); // of an output: "1" if chunks rounded it
constexpr llvm::StringLiteral kKind("isthmus.kind");       // of inputs and initializers
constexpr llvm::StringLiteral kPlace("isthmus.place"); // of inputs and initializers: their position
constexpr llvm::StringLiteral kInit("isthmus.init");   // "normal {std = 0.1}"
constexpr llvm::StringLiteral kRow("isthmus.row");     // of standard operators
constexpr llvm::StringLiteral kCheck("isthmus.check"); // hash of what kRow or kInit describes
constexpr llvm::StringLiteral kAfter("isthmus.after"); // how many operands are nodes to run after
constexpr llvm::StringLiteral kPhase("isthmus.phase");
constexpr llvm::StringLiteral kGradientOf("isthmus.gradient_of"); // of a backward node
constexpr llvm::StringLiteral kOrigin("isthmus.origin");
constexpr llvm::StringLiteral kRestores("isthmus.restores");
constexpr llvm::StringLiteral kStandIn("isthmus.stand_in"); // the kind of a node with kRestores
constexpr llvm::StringLiteral kPasses("isthmus.passes");    // kRestores in format 1
constexpr llvm::StringLiteral kSource("isthmus.source");
constexpr llvm::StringLiteral kMarks("isthmus.marks");
constexpr llvm::StringLiteral kDevice("isthmus.device");
// The kind of an initializer that is an operand of a standard operator: a shape, axes, a factor.
constexpr llvm::StringLiteral kPart("part");

using Metadata = google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>;
void setMeta(Metadata &m, llvm::StringRef key, llvm::StringRef value);
llvm::StringRef getMeta(const Metadata &m, llvm::StringRef key); // "" if it is missing

// The row that an operator of `kDomain` names, or null.
const OpDef *rowOf(llvm::StringRef opType);

// Writes a row's attributes as a node's, without loss: a float that f32 cannot represent becomes a
// tensor.
void writeAttrs(const Attrs &attrs, onnx::NodeProto &n);
// All attributes, defaults included, with the kinds of the row.
llvm::Expected<Attrs> readAttrs(const OpDef &op, const onnx::NodeProto &n);

// A hash of the content. If it differs from kCheck, another tool changed the node or tensor.
std::string checkOf(const onnx::NodeProto &n);
std::string checkOf(const Tensor &t);

// " {mean = 0.0, seed = 3}", or "".
std::string attrsText(const Attrs &attrs);
// "normal {mean = 0.0, seed = 3, std = 0.1}"; parseInitializer reads it.
std::string initText(const Initializer &init);

int elementCode(DType t); // of onnx::TensorProto

} // namespace isthmus::onnx_rows
