// Verbs that list ops and devices.

#include "ir/op_registry.h"
#include "kernels/cpu.h"
#include "runtime/cuda_device.h"
#include "tools/cli/console.h"
#include "tools/cli/devices.h"
#include "tools/cli/table.h"
#include "tools/verbs/verbs.h"
#include "llvm/Support/raw_ostream.h"

namespace isthmus {
namespace {

std::string gradientText(const OpDef &op) {
  switch (op.differentiable) {
  case Differentiable::Yes:
    return "yes";
  case Differentiable::ZeroGradient:
    return "zero";
  case Differentiable::Missing:
    return "no";
  }
  return "";
}

llvm::Error ops() {
  Table table({false, false, false, false, false});
  table.row({"op", "gradient", "inverse", "cpu kernels", "operands"});
  for (const OpDef *op : OpRegistry::get().rows()) {
    std::string kernels;
    for (const Kernel &k : cpuKernels().of(op->name))
      kernels += (kernels.empty() ? "" : ", ") + k.library.str();
    if (op->is(kView))
      kernels = "view";
    else if (op->is(kTransfer))
      kernels = "the device's";
    table.row({op->name, gradientText(*op), op->inverse ? "yes" : "-", kernels, op->operands});
  }
  llvm::outs() << table.text("");
  return llvm::Error::success();
}

// The description of a device, or the reason why it is not available.
llvm::Expected<std::string> deviceText(const char *name) {
  auto device = openDevice(name);
  if (!device) {
    std::string why = plainMessage(device.takeError());
    return llvm::StringRef(why).split("is ").second.str();
  }
  std::string text = (*device)->target().name;
  auto memory = (*device)->memory();
  if (!memory)
    return memory.takeError();
  if (*memory)
    text += ", " + bytesText((*memory)->freeBytes) + " of " + bytesText((*memory)->totalBytes) +
            " free";
  for (const std::string &note : (*device)->takeNotes())
    text += "\n          " + note;
  return text;
}

// The places where the CUDA device looks for NVIDIA's libraries; nothing if its own library is
// missing.
void listCudaLibraries() {
  auto libraries = cudaLibraries();
  if (!libraries)
    return llvm::consumeError(libraries.takeError());
  llvm::StringRef rest = *libraries;
  while (!rest.empty()) {
    auto [line, others] = rest.split('\n');
    llvm::outs() << "          " << line << '\n';
    rest = others;
  }
}

llvm::Error devices() {
  for (const char *name : {"cpu", "counting", "cuda"}) {
    auto text = deviceText(name);
    if (!text)
      return text.takeError();
    llvm::outs() << llvm::formatv("{0,-10}{1}\n", name, *text);
  }
  listCudaLibraries();
  return llvm::Error::success();
}

} // namespace

const Verb kOps = {"ops", "lists the op table", "isthmus ops",
                   [](CLI::App &) -> VerbBody { return ops; }};
const Verb kDevices = {"devices", "lists the devices, and why one is not available",
                       "isthmus devices", [](CLI::App &) -> VerbBody { return devices; }};

} // namespace isthmus
