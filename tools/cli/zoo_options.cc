#include "tools/cli/zoo_options.h"

namespace isthmus {

void addZooOptions(CLI::App &verb, ZooOptions &options, const char *group) {
  std::map<std::string, std::string> docs;
  for (const ZooModel &model : zooModels())
    for (const ZooOption &option : model.options)
      docs.emplace(option.name, option.doc);
  for (const auto &[name, doc] : docs)
    if (!verb.get_option_no_throw("--" + name))
      verb.add_option_function<std::string>(
              "--" + name,
              [&options, name = name](const std::string &value) { options[name] = value; }, doc)
          ->group(group);
}

} // namespace isthmus
