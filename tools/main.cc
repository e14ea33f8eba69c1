// The command line: parses one verb and its options, runs it, returns an exit code.

#include "ir/check.h"
#include "ir/diagnostics.h"
#include "tools/cli/console.h"
#include "tools/cli/exit.h"
#include "tools/cli/process.h"
#include "tools/cli/processes.h"
#include "tools/verbs/verbs.h"
#include "tools/version.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <cctype>
#include <sstream>

using namespace isthmus;

namespace {

const Verb *const kVerbs[] = {&kOpt,      &kRun,   &kTrain,  &kPlan,    &kExplain, &kProfile,
                              &kVerify,   &kGrad,  &kInvert, &kImport,  &kZoo,     &kDot,
                              &kViewVerb, &kSweep, &kOps,    &kDevices, &kSelftest};

std::string unknownVerb(llvm::StringRef given) {
  std::vector<llvm::StringRef> names;
  for (const Verb *verb : kVerbs)
    names.push_back(verb->name);
  std::string expected = "; expected one of " + llvm::join(names, ", ");
  if (given.empty())
    return "no verb is given" + expected;
  return "no verb is called '" + given.str() + "'" + didYouMean(given, names) + expected;
}

// The message for the first argument that the verb does not know.
std::string unknownArgument(const CLI::App &verb, llvm::StringRef given) {
  llvm::StringRef option = given.split('=').first;
  if (!option.startswith("-"))
    return "one argument too many: '" + given.str() + "'";
  std::vector<std::string> names;
  for (const CLI::Option *o : verb.get_options())
    for (const std::string &name : o->get_lnames())
      names.push_back("--" + name);
  std::vector<llvm::StringRef> known(names.begin(), names.end());
  return "there is no option '" + option.str() + "'" + didYouMean(option, known);
}

// Says what was expected and what was found, where CLI11's own words do not.
std::string inOurWords(llvm::StringRef message) {
  if (message.consume_front("Could not convert: ")) {
    auto [name, value] = message.split(" = ");
    return name.str() + ": expected a number, got '" + value.str() + "'";
  }
  if (auto [name, times] = message.split(": At Most 1 required but received "); !times.empty())
    return name.str() + ": expected one value, got " + times.str();
  if (auto [name, rest] = message.split(": 1 required "); rest.endswith(" missing"))
    return name.str() + ": expected a value, got none";
  return message.str();
}

// CLI11 reports by exceptions; they end here. Every error of the command line gives exit code 2.
int reportUsage(CLI::App &app, const CLI::ParseError &e, llvm::StringRef firstArgument) {
  if (e.get_exit_code() == 0) { // --help, --version
    std::ostringstream text;
    app.exit(e, text, text);
    llvm::outs() << text.str();
    return 0;
  }
  const CLI::App *verb = app.get_subcommands().empty() ? nullptr : app.get_subcommands().front();
  std::vector<std::string> left = app.remaining(/*recurse=*/true);
  std::string message = inOurWords(e.what());
  if (!verb && !firstArgument.startswith("-"))
    message = unknownVerb(firstArgument);
  else if (!left.empty())
    message = unknownArgument(verb ? *verb : app, left.front());
  else if (message.size() > 1 &&
           !std::isupper(static_cast<unsigned char>(message[1]))) // names in capitals stay
    message[0] = llvm::toLower(message[0]);
  Console::get().report(usageError("{0}", message));
  Console::get().note("`isthmus " + (verb ? verb->get_name() + " " : "") +
                      "--help` lists the options");
  return 2;
}

// An error for the first option that is written `--name=`, without a value: CLI11 would take the
// next argument as its value.
llvm::Error checkValues(llvm::ArrayRef<const char *> arguments) {
  for (llvm::StringRef argument : arguments) {
    if (argument == "--")
      break;
    if (argument.startswith("--") && argument.find('=') == argument.size() - 1)
      return usageError("{0}: expected a value after the '=', got none", argument.drop_back());
  }
  return llvm::Error::success();
}

// Returns the exit code.
int runCommand(int argc, char **argv) {
  if (llvm::Error e = checkValues(llvm::makeArrayRef(argv, size_t(argc)).drop_front()))
    return Console::get().report(std::move(e));
  CLI::App app(
      "Makes the training step of a neural network fit in less memory by rewriting its graph.",
      "isthmus");
  app.set_version_flag("--version", std::string("isthmus ") + kVersion);
  app.require_subcommand(1);
  app.footer("`isthmus VERB --help` describes a verb's options, with an example.");
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
    return reportUsage(app, e, argc > 1 ? argv[1] : "");
  }
  if (llvm::Error e = body())
    return Console::get().report(std::move(e));
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  guardProcess();
  guardSignals();
  if (llvm::Error e = joinProcesses())
    return endProcess(Console::get().report(std::move(e)));
  return leaveProcesses(endProcess(runCommand(argc, argv)));
}
