#include "ir/onnx/parameters/roles.h"

#include "ir/onnx/parameters/candidates.h"
#include "ir/onnx/parameters/missing_parameters.h"
#include "ir/onnx/parameters/other_weights.h"
#include "ir/onnx/parameters/rules.h"
#include "ir/onnx/parameters/ties.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus::onnx_import {

llvm::Expected<Roles> findRoles(Model &m, llvm::StringMap<Tensor> &data,
                                const OnnxOptions &options) {
  Roles roles;
  Decisions decisions;
  Candidates candidates(m, data, options, decisions);
  llvm::StringSet<> inPlace = decideRoles(candidates);
  if (llvm::Error e = tieCandidates(candidates, decisions))
    return e;
  roles.otherWeights = otherWeights(candidates, decisions);
  reportMissing(candidates, inPlace, decisions);
  for (const std::string &sum : llvm::reverse(candidates.readers().lostDetach))
    decisions.add(Decision::LostDetach, sum);
  for (const Candidate &c : candidates.all())
    if (c.role.sameAs.empty())
      decisions.addAll(c.decisions);
  for (bool isSame : {false, true})
    for (const Candidate &c : candidates.all())
      if (!c.role.sameAs.empty() == isSame)
        roles.tensors.push_back(c.role);
  decisions.tell(roles.notes);
  return roles;
}

} // namespace isthmus::onnx_import
