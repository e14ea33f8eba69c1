// The command line: one verb, its options, an exit code.

#include "ir/check.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/cli/console.h"
#include "tools/verbs/verbs.h"

using namespace isthmus;

namespace {

constexpr const char *kVersion = "0.1.0";

const Verb *const kVerbs[] = {&kOpt, &kRun, &kVerify, &kGrad, &kImport, &kZoo, &kDot, &kOps, &kDevices, &kSelftest};

// CLI11 reports by exceptions; they end here. Everything wrong with the command line is exit code 2.
int usageError(CLI::App &app, const CLI::ParseError &e) {
  if (e.get_exit_code() == 0) // --help, --version
    return app.exit(e);
  const CLI::App *verb = &app;
  for (const CLI::App *sub : app.get_subcommands())
    verb = sub;
  std::string name = verb == &app ? "isthmus" : "isthmus " + verb->get_name();
  Console::get().report(makeErrorCode(2, "{0}", e.what()));
  Console::get().note("`" + name + " --help` lists the options");
  return 2;
}

} // namespace

int main(int argc, char **argv) {
  llvm::sys::SetInterruptFunction([] { std::_Exit(130); }); // temporary files are gone by then
  CLI::App app("Makes the training step of a neural network fit in less memory by rewriting its graph.", "isthmus");
  app.set_version_flag("--version", std::string("isthmus ") + kVersion);
  app.require_subcommand(1);
  app.footer("`isthmus VERB --help` tells a verb's options, with an example.");
  VerbBody body;
  for (const Verb *verb : kVerbs) {
    CLI::App *sub = app.add_subcommand(verb->name, verb->doc);
    sub->footer(std::string("Example:\n  ") + verb->example);
    VerbBody own = verb->setUp(*sub);
    sub->final_callback([&body, own] { body = own; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &e) {
    return usageError(app, e);
  }
  if (llvm::Error e = body())
    return Console::get().report(std::move(e));
  return 0;
}
