#include "ir/onnx/parameters/roles.h"

#include "ir/onnx/parameters/candidates.h"
#include "ir/onnx/parameters/elsewhere.h"
#include "ir/onnx/parameters/lost.h"
#include "ir/onnx/parameters/rules.h"
#include "ir/onnx/parameters/ties.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus::onnx_import {

llvm::Expected<Roles> findRoles(Model &m, const llvm::StringMap<Tensor> &data,
                                const OnnxOptions &options) {
  Roles roles;
  Decisions told;
  Candidates candidates(m, data, options, told);
  llvm::StringSet<> inPlace = decideRoles(candidates);
  if (llvm::Error e = tieCandidates(candidates, told))
    return e;
  roles.learnedElsewhere = learnedElsewhere(candidates, told);
  tellLost(candidates, inPlace, told);
  for (const std::string &sum : llvm::reverse(candidates.readers().lostDetach))
    told.add(Decision::LostDetach, sum);
  for (const Candidate &c : candidates.all())
    if (c.role.sameAs.empty())
      told.addAll(c.told);
  for (bool isSame : {false, true})
    for (const Candidate &c : candidates.all())
      if (!c.role.sameAs.empty() == isSame)
        roles.tensors.push_back(c.role);
  told.tell(roles.notes);
  return roles;
}

} // namespace isthmus::onnx_import
