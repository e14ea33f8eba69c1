// Imports any bytes, and mutations of valid models. The result is an error with located
// diagnostics, or a legal graph that is unchanged by export and import. The plain kernels fold
// constants, as in the command line.
//
// FUZZ: sources=ir/onnx/**/*.cc kernels/fold.cc kernels/plain/**/*.cc runtime/kernel.cc
// FUZZ: libraries=-lprotobuf
// FUZZ: flags=-Itests/fuzz/no_openmp
// FUZZ: protos=onnx/onnx.proto

#include "ir/check.h"
#include "ir/equal_graphs.h"
#include "ir/onnx/export/exporter.h"
#include "ir/onnx/import.h"
#include "ir/verifier.h"
#include "kernels/fold.h"
#include "onnx/onnx.pb.h"
#include <random>

using namespace isthmus;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef bytes(reinterpret_cast<const char *>(data), size);
  OnnxOptions options;
  options.fold = foldWithPlainKernels;
  options.allowance = 1.0 / 64;
  // Open sizes are bound, as otherwise nothing after them would be checked.
  onnx::ModelProto model;
  if (model.ParseFromArray(data, static_cast<int>(size)))
    for (const onnx::ValueInfoProto &v : model.graph().input()) {
      const auto &shape = v.type().tensor_type().shape();
      for (int i = 0; i < shape.dim_size(); ++i)
        if (shape.dim(i).has_dim_param() && !shape.dim(i).dim_param().empty())
          options.dims[shape.dim(i).dim_param()] = 2;
    }
  auto g = importOnnxBytes(bytes, "fuzz", options);
  if (!g) {
    llvm::handleAllErrors(g.takeError(), [&](const DiagError &e) {
      ISTHMUS_CHECK(!e.diags.empty(), "an error without a diagnostic");
      for (const Diag &d : e.diags)
        ISTHMUS_CHECK(llvm::StringRef(d.where).startswith("fuzz") && !d.message.empty(),
                      "a diagnostic's place: " + d.where);
    });
    return 0;
  }
  if (llvm::Error e = verify(*g))
    ISTHMUS_CHECK(false, "imported an illegal graph: " + llvm::toString(std::move(e)));
  // The exported graph must be read back as the same graph.
  auto written = onnxBytes(*g);
  ISTHMUS_CHECK(bool(written), "an export that failed");
  auto back = importOnnxBytes(*written, "back", {});
  std::string reason;
  ISTHMUS_CHECK(back && equalGraphs(*g, *back, &reason), "another graph was read back: " + reason);
  return 0;
}

// --- Mutations of the message. Most changes of its bytes would make it invalid.

namespace {

int64_t oddNumber(std::mt19937 &rng) {
  static const int64_t kOdd[] = {
      0, 1, -1, 2, 3, 5, 7, 16, -2, 1 << 20, 1LL << 31, 1LL << 40, 1LL << 62, INT64_MAX, INT64_MIN};
  return kOdd[rng() % std::size(kOdd)];
}

const char *someOp(std::mt19937 &rng) {
  static const char *const kOps[] = {"Add",
                                     "Mul",
                                     "Div",
                                     "Pow",
                                     "Relu",
                                     "Clip",
                                     "Gemm",
                                     "MatMul",
                                     "Conv",
                                     "ConvTranspose",
                                     "MaxPool",
                                     "AveragePool",
                                     "BatchNormalization",
                                     "LayerNormalization",
                                     "Softmax",
                                     "Dropout",
                                     "Reshape",
                                     "Transpose",
                                     "Concat",
                                     "Split",
                                     "Slice",
                                     "Gather",
                                     "Pad",
                                     "Expand",
                                     "Tile",
                                     "Where",
                                     "Cast",
                                     "Shape",
                                     "Range",
                                     "ConstantOfShape",
                                     "Constant",
                                     "Identity",
                                     "ReduceMean",
                                     "ReduceSum",
                                     "ReduceProd",
                                     "Flatten",
                                     "Squeeze",
                                     "Unsqueeze",
                                     "Trilu",
                                     "Resize",
                                     "Attention",
                                     "NonZero",
                                     "Mod",
                                     "Floor",
                                     "Equal",
                                     "GroupNormalization",
                                     "InstanceNormalization",
                                     "DepthToSpace",
                                     "RandomUniformLike",
                                     "SoftmaxCrossEntropyLoss",
                                     "GlobalAveragePool",
                                     "Gelu",
                                     "Elu",
                                     "Size",
                                     "CastLike",
                                     "Sum",
                                     "Max",
                                     "If",
                                     "Loop",
                                     "Scan",
                                     "SequenceConstruct",
                                     "SequenceAt",
                                     "SequenceInsert",
                                     "SplitToSequence",
                                     "ConcatFromSequence",
                                     "SequenceMap",
                                     "OptionalHasElement"};
  return kOps[rng() % std::size(kOps)];
}

// A list of nodes of the graph, of a function or of a graph within a node, and the names that are
// visible there.
struct Place {
  google::protobuf::RepeatedPtrField<onnx::NodeProto> *nodes;
  std::vector<std::string> names;
};

void collect(google::protobuf::RepeatedPtrField<onnx::NodeProto> *nodes,
             std::vector<std::string> names, std::vector<Place> &all) {
  for (const auto &n : *nodes)
    names.insert(names.end(), n.output().begin(), n.output().end());
  all.push_back({nodes, names});
  for (auto &n : *nodes)
    for (auto &a : *n.mutable_attribute())
      if (a.has_g()) {
        std::vector<std::string> inner = names;
        for (const auto &v : a.g().input())
          inner.push_back(v.name());
        collect(a.mutable_g()->mutable_node(), inner, all);
      }
}

std::vector<Place> placesOf(onnx::ModelProto &m) {
  std::vector<std::string> names = {""};
  for (const auto &v : m.graph().input())
    names.push_back(v.name());
  for (const auto &t : m.graph().initializer())
    names.push_back(t.name());
  std::vector<Place> all;
  collect(m.mutable_graph()->mutable_node(), names, all);
  for (auto &f : *m.mutable_functions()) {
    std::vector<std::string> inner = {f.input().begin(), f.input().end()};
    inner.push_back("");
    collect(f.mutable_node(), inner, all);
  }
  return all;
}

template <typename List> auto *some(List *list, std::mt19937 &rng) {
  return list->size() ? list->Mutable(static_cast<int>(rng() % unsigned(list->size()))) : nullptr;
}

void mutateTensor(onnx::TensorProto &t, std::mt19937 &rng) {
  switch (rng() % 4) {
  case 0:
    if (t.dims_size())
      t.set_dims(static_cast<int>(rng() % unsigned(t.dims_size())), oddNumber(rng));
    break;
  case 1:
    t.add_dims(oddNumber(rng));
    break;
  case 2:
    t.set_data_type(static_cast<int>(rng() % 24));
    break;
  default: // other values, and still as many
    if (t.raw_data().size() >= 8) {
      int64_t v = oddNumber(rng);
      std::memcpy(t.mutable_raw_data()->data() + (rng() % (t.raw_data().size() / 8)) * 8, &v, 8);
    } else if (t.int64_data_size()) {
      t.set_int64_data(static_cast<int>(rng() % unsigned(t.int64_data_size())), oddNumber(rng));
    }
  }
}

void mutateNode(const Place &place, onnx::NodeProto &n, std::mt19937 &rng) {
  switch (rng() % 6) {
  case 0:
    n.set_op_type(someOp(rng));
    break;
  case 1:
    if (std::string *in = some(n.mutable_input(), rng))
      *in = place.names[rng() % place.names.size()];
    break;
  case 2:
    n.add_input(place.names[rng() % place.names.size()]);
    break;
  case 3:
    if (n.attribute_size())
      n.mutable_attribute()->DeleteSubrange(static_cast<int>(rng() % unsigned(n.attribute_size())),
                                            1);
    break;
  default:
    if (onnx::AttributeProto *a = some(n.mutable_attribute(), rng)) {
      if (a->type() == onnx::AttributeProto::INT)
        a->set_i(oddNumber(rng));
      else if (a->type() == onnx::AttributeProto::FLOAT)
        a->set_f(static_cast<float>(oddNumber(rng)) / 3);
      else if (a->ints_size())
        a->set_ints(static_cast<int>(rng() % unsigned(a->ints_size())), oddNumber(rng));
      else if (a->has_t())
        mutateTensor(*a->mutable_t(), rng);
    }
  }
}

void mutate(onnx::ModelProto &m, std::mt19937 &rng) {
  onnx::GraphProto &g = *m.mutable_graph();
  std::vector<Place> places = placesOf(m);
  const Place &place = places[rng() % places.size()];
  switch (rng() % 8) {
  case 0:
    if (onnx::TensorProto *t = some(g.mutable_initializer(), rng))
      mutateTensor(*t, rng);
    break;
  case 1:
    if (onnx::ValueInfoProto *v = some(g.mutable_input(), rng))
      if (auto *d =
              some(v->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(), rng))
        d->set_dim_value(oddNumber(rng));
    break;
  case 2:
    if (onnx::OperatorSetIdProto *o = some(m.mutable_opset_import(), rng))
      o->set_version(7 + rng() % 18);
    break;
  case 3: // another node that reads present values, and an output of it
    if (onnx::NodeProto *n = some(g.mutable_node(), rng)) {
      onnx::NodeProto copy = *n;
      for (std::string &out : *copy.mutable_output())
        out = "new" + std::to_string(rng() % 1000);
      if (rng() % 2)
        copy.set_op_type(someOp(rng));
      if (copy.output_size())
        g.add_output()->set_name(copy.output(0));
      *g.add_node() = copy;
    }
    break;
  default:
    if (onnx::NodeProto *n = some(place.nodes, rng))
      mutateNode(place, *n, rng);
  }
}

} // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  std::mt19937 rng(seed);
  onnx::ModelProto m;
  if (rng() % 8 == 0 || !m.ParseFromArray(data, static_cast<int>(size)))
    return LLVMFuzzerMutate(data, size, maxSize);
  for (unsigned times = 1 + rng() % 4; times; --times)
    mutate(m, rng);
  std::string bytes = m.SerializeAsString();
  if (bytes.size() > maxSize)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}
