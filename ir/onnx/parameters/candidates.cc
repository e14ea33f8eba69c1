#include "ir/onnx/parameters/candidates.h"

#include "ir/onnx/parameters/left_out.h"
#include "ir/onnx/rows.h"
#include "ir/onnx/tensor_data.h"

namespace isthmus::onnx_import {
namespace {

// The parameter that the exporter's records give for a tensor: by its name, or as the only source
// of its folding.
std::string recordedParameter(const ExporterRecords &records, llvm::StringRef name) {
  if (records.isParameter(name))
    return name.str();
  const ExporterRecords::Folded *f = records.foldedFrom(name);
  return f && f->from.size() == 1 && records.isParameter(f->from[0]) ? f->from[0] : "";
}

} // namespace

bool isIdentity(const onnx::NodeProto &n) {
  return n.op_type() == "Identity" && isDefaultDomain(n.domain()) && n.input_size() == 1 &&
         n.output_size() == 1;
}

Candidates::Candidates(Model &m, llvm::StringMap<Tensor> &data, const OnnxOptions &options,
                       Decisions &decisions)
    : model_(m), data_(data), options_(options), records_(m) {
  for (std::string &bias : restoreBiases(m, records_, data))
    decisions.add(Decision::RestoredBias, std::move(bias));
  std::vector<TensorCopy> byRecords = separateByRecords(m, records_);
  std::vector<TensorCopy> byReaders = separateReaders(m, options.untie);
  readers_ = readersOf(m); // by the names that the nodes read now
  addInitializers();
  addCopies(std::move(byRecords), decisions);
  addCopies(std::move(byReaders), decisions);
  addIdentities();
}

Candidate *Candidates::find(llvm::StringRef name) {
  auto it = index_.find(name);
  return it == index_.end() ? nullptr : &all_[it->second];
}

std::vector<llvm::StringRef> Candidates::names() const {
  std::vector<llvm::StringRef> names;
  for (const Candidate &c : all_)
    names.push_back(c.role.name);
  return names;
}

Candidate Candidates::make(std::string name, const std::string &of, std::string parameter) const {
  Candidate c;
  c.role.name = std::move(name);
  c.role.of = of;
  auto it = data_.find(of);
  c.data = it == data_.end() ? nullptr : &it->second;
  c.parameter = std::move(parameter);
  return c;
}

void Candidates::add(Candidate c) {
  index_[c.role.name] = all_.size();
  all_.push_back(std::move(c));
}

void Candidates::addInitializers() {
  for (const onnx::TensorProto &t : model_.graph().initializer()) {
    Candidate c = make(t.name(), t.name(), recordedParameter(records_, t.name()));
    c.ours = onnx_rows::getMeta(t.metadata_props(), onnx_rows::kKind);
    add(std::move(c));
  }
}

void Candidates::addCopies(std::vector<TensorCopy> copies, Decisions &decisions) {
  for (TensorCopy &copy : copies) {
    if (!copy.parameter.empty())
      decisions.add(Decision::SplitByRecords, copy.parameter,
                    (copy.name == copy.parameter ? "" : ", as '" + copy.name + "'") + " beside '" +
                        copy.of + "'");
    Candidate c = make(copy.name, copy.of, copy.parameter);
    c.followsOrigin = copy.parameter.empty();
    add(std::move(c));
  }
}

// Whether an Identity of an initializer gives a separate tensor, not only another name.
bool Candidates::isSplitIdentity(const onnx::NodeProto &n, const Candidate &origin) const {
  llvm::StringRef name = n.output(0);
  if (matchesAny(options_.untie, name))
    return true;
  // An Identity of the program (a clone, a layer without effect) does not have a parameter's name.
  if (name.startswith("/") || (records_.hasSignature() && records_.kindOf(name).empty()))
    return false;
  return origin.isFloating() && allElementsEqual(*origin.data);
}

void Candidates::addIdentities() {
  for (const onnx::NodeProto &n : model_.graph().node()) {
    const Candidate *origin = isIdentity(n) ? find(n.input(0)) : nullptr;
    if (origin && isSplitIdentity(n, *origin))
      add(make(n.output(0), origin->role.of, ""));
  }
}

} // namespace isthmus::onnx_import
