#include "tools/session/open.h"

#include "tools/session/agreement.h"

namespace isthmus {

llvm::Expected<std::unique_ptr<Session>> openSession(const Compiled &c, Device &device,
                                                     uint64_t seed, std::vector<Tensor> inputs,
                                                     ProcessGroup *group,
                                                     llvm::ArrayRef<std::string> sources) {
  if (group) {
    if (llvm::Error e = checkAllHold(c.graph, inputs, sources, seed, *group))
      return e;
    if (llvm::Error e = checkAllCompiled(c.graph, device.target().name, *group))
      return e;
  }
  if (c.programs.empty())
    return Session::open(c.graph, c.layout, device, seed, std::move(inputs));
  std::vector<SessionProgram> programs;
  for (const CompiledProgram &p : c.programs)
    programs.push_back({p.device, &p.graph, &p.layout, p.inputs, p.outputs});
  return Session::open(c.graph, std::move(programs), device, seed, std::move(inputs), group);
}

} // namespace isthmus
