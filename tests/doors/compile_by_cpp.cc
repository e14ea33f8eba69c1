// Does the same as compile_by_c.c, by the C++ header.

#include "tools/c/isthmus.hpp"
#include "tools/c/run/isthmus_run.h"
#include <array>
#include <cstdlib>
#include <iostream>

namespace {

isthmus::CompileOptions optionsOf(const std::string &loss, const std::string &plan) {
  constexpr std::array kWords = {"", "none", "speed", "memory", "collection"};
  isthmus::CompileOptions options;
  options.loss = loss;
  for (std::size_t i = 0; i < kWords.size(); ++i)
    if (plan == kWords[i]) {
      options.policy = isthmus_policy(i);
      return options;
    }
  options.policy = ISTHMUS_BUDGET;
  isthmus_budget_parse(plan.c_str(), &options.budgetBytes, &options.budgetShare, nullptr);
  return options;
}

} // namespace

int main(int argc, char **argv) try {
  if (argc != 8)
    return 2;
  isthmus_run_options machine;
  isthmus_run_options_init(&machine, sizeof machine);
  machine.threads = std::atoi(argv[6]);
  isthmus_target *target = nullptr;
  if (isthmus_run_target(&machine, &target, nullptr) != ISTHMUS_RUN_OK)
    return 1;
  const std::unique_ptr<isthmus_target, void (*)(isthmus_target *)> owned(target,
                                                                          isthmus_run_target_free);
  isthmus::CompileOptions options = optionsOf(argv[3], argv[4]);
  options.allow = unsigned(std::atoi(argv[5]));
  options.effort = std::atof(argv[7]);
  isthmus::Graph::load(argv[1]).compile(options, target).graph().save(argv[2]);
} catch (const isthmus::Error &e) {
  std::cerr << e.what() << '\n';
  return e.status();
}
