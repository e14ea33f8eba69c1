#include "ir/onnx/parameters/missing_parameters.h"

namespace isthmus::onnx_import {

void reportMissing(const Candidates &candidates, const llvm::StringSet<> &inPlace,
                   Decisions &decisions) {
  llvm::StringSet<> there, called;
  for (const Candidate &c : candidates.all()) {
    there.insert(c.role.name);
    there.insert(c.parameter);
  }
  bool hasCalls = false;
  for (const onnx::NodeProto &n : candidates.model().graph().node()) {
    there.insert(n.output().begin(), n.output().end());
    for (llvm::StringRef p : candidates.records().callBehind(n).parameters) {
      hasCalls = true;
      called.insert(p);
    }
  }
  for (const std::string &p : candidates.records().parameters())
    if (!there.count(p) && !inPlace.count(p))
      decisions.add(hasCalls && !called.count(p) ? Decision::OtherName : Decision::Lost, p);
}

} // namespace isthmus::onnx_import
