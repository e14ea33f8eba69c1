#include "ir/measured_costs.h"

#include "ir/file.h"
#include "ir/json.h"

namespace isthmus {
namespace {

constexpr const char *kSchema = "isthmus.costs/1";
constexpr double kMicroseconds = 1e6;

llvm::Expected<double> timeIn(const nlohmann::json &j, const std::string &what) {
  constexpr double kMost = 1e12; // sums of many costs stay finite
  if (!j.is_number() || !(j.get<double>() >= 0 && j.get<double>() <= kMost))
    return makeError("expected a number from 0 to 1e12 for {0}, got {1}", what, jsonText(j));
  return j.get<double>();
}

} // namespace

llvm::Expected<std::shared_ptr<const MeasuredCosts>> parseCosts(llvm::StringRef text) {
  constexpr int kDepth = 4;
  auto json = parseJson(text, kDepth);
  if (!json)
    return json.takeError();
  const nlohmann::json none;
  auto at = [&](const char *key) -> const nlohmann::json & {
    return json->is_object() && json->contains(key) ? (*json)[key] : none;
  };
  if (at("schema") != kSchema || !at("target").is_string() || !at("ops").is_object())
    return makeError("expected costs as `isthmus profile MODEL -o COSTS.json` writes them, with "
                     "\"schema\": \"{0}\", \"target\" and \"ops\"",
                     kSchema);
  auto costs = std::make_shared<MeasuredCosts>();
  costs->target = at("target");
  auto perEstimate = timeIn(at("per_estimate"), "\"per_estimate\"");
  if (!perEstimate)
    return perEstimate.takeError();
  costs->perEstimate = *perEstimate;
  for (const auto &[call, us] : at("ops").items()) {
    auto time = timeIn(us, "the microseconds of '" + call + "'");
    if (!time)
      return time.takeError();
    costs->seconds[call] = *time / kMicroseconds;
  }
  return costs;
}

std::string costsText(const MeasuredCosts &costs) {
  nlohmann::ordered_json j;
  j["schema"] = kSchema;
  j["target"] = costs.target;
  j["per_estimate"] = costs.perEstimate;
  j["ops"] = nlohmann::ordered_json::object();
  for (const auto &[call, seconds] : costs.seconds)
    j["ops"][call] = seconds * kMicroseconds;
  return jsonText(j, 1) + "\n";
}

llvm::Expected<std::shared_ptr<const MeasuredCosts>> readCosts(const std::string &path) {
  auto file = readFile(path);
  if (!file)
    return file.takeError();
  auto costs = parseCosts((*file)->getBuffer());
  if (!costs)
    return makeError("{0}: {1}", path, plainMessage(costs.takeError()));
  return costs;
}

} // namespace isthmus
