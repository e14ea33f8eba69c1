#include "ir/target_text.h"

#include "ir/json.h"
#include "ir/spelling.h"

namespace isthmus {
namespace {

constexpr const char *kSchema = "isthmus.target/1";

// The numbers of a target, by key. The first list's are above zero, the second's may be zero.
struct Number {
  const char *key;
  double Target::*field;
  bool mayBeZero;
};
constexpr Number kNumbers[] = {{"flops_per_second", &Target::flopsPerSecond, false},
                               {"bytes_per_second", &Target::bytesPerSecond, false},
                               {"launch_seconds", &Target::launchSeconds, true},
                               {"link_bytes_per_second", &Target::linkBytesPerSecond, true}};
constexpr double kMostNumber = 1e24;
constexpr int64_t kMostAlignment = 1 << 20;

llvm::Error setNumber(const nlohmann::json &j, const std::string &key, bool mayBeZero, double &to) {
  const bool isOne = j.is_number() && j.get<double>() <= kMostNumber &&
                     (mayBeZero ? j.get<double>() >= 0 : j.get<double>() > 0);
  if (!isOne)
    return makeError("a target's \"{0}\" is to be a number {1}, up to 1e24; got {2}", key,
                     mayBeZero ? "from 0" : "above 0", jsonText(j));
  to = j.get<double>();
  return llvm::Error::success();
}

llvm::Expected<DType> floatTypeIn(const nlohmann::json &j, const std::string &key) {
  auto type = j.is_string() ? parseDType(j.get<std::string>()) : std::nullopt;
  if (!type || !isFloat(*type))
    return makeError("a target's \"{0}\" has f32, f64, bf16 and f16; got {1}", key, jsonText(j));
  return *type;
}

llvm::Error setRates(const nlohmann::json &j, Target &t) {
  const std::string key = "contraction_flops_per_second";
  if (!j.is_object())
    return makeError("a target's \"{0}\" is to be an object; got {1}", key, jsonText(j));
  for (const auto &[name, rate] : j.items()) {
    auto type = floatTypeIn(name, key);
    if (!type)
      return type.takeError();
    if (llvm::Error e = setNumber(rate, key, false, t.contractionFlopsPerSecond[size_t(*type)]))
      return e;
  }
  return llvm::Error::success();
}

llvm::Error setChannelsLast(const nlohmann::json &j, Target &t) {
  if (!j.is_array())
    return makeError("a target's \"channels_last\" is to be a list; got {0}", jsonText(j));
  for (const nlohmann::json &name : j) {
    auto type = floatTypeIn(name, "channels_last");
    if (!type)
      return type.takeError();
    t.channelsLast.push_back(*type);
  }
  return llvm::Error::success();
}

llvm::Error setField(const std::string &key, const nlohmann::json &j, Target &t) {
  for (const Number &n : kNumbers)
    if (key == n.key)
      return setNumber(j, key, n.mayBeZero, t.*n.field);
  if (key == "contraction_flops_per_second")
    return setRates(j, t);
  if (key == "channels_last")
    return setChannelsLast(j, t);
  if (key == "device_kind" && j.is_string() && isDeviceName(j.get<std::string>())) {
    t.deviceKind = j;
    return llvm::Error::success();
  }
  if (key == "fuses_bias" && j.is_boolean()) {
    t.fusesBias = j;
    return llvm::Error::success();
  }
  if (key == "alignment" && j.is_number_integer() && j.get<int64_t>() > 0 &&
      j.get<int64_t>() <= kMostAlignment) {
    t.alignment = j;
    return llvm::Error::success();
  }
  return makeError("unexpected \"{0}\": {1} in a target", key, jsonText(j));
}

} // namespace

std::string targetText(const Target &t) {
  nlohmann::ordered_json j;
  j["schema"] = kSchema;
  j["name"] = t.name;
  if (t.deviceKind != Target().deviceKind)
    j["device_kind"] = t.deviceKind;
  j["alignment"] = t.alignment;
  j["fuses_bias"] = t.fusesBias;
  for (const Number &n : kNumbers)
    j[n.key] = t.*n.field;
  j["contraction_flops_per_second"] = nlohmann::ordered_json::object();
  for (size_t i = 0; i < t.contractionFlopsPerSecond.size(); ++i)
    if (t.contractionFlopsPerSecond[i] > 0)
      j["contraction_flops_per_second"][dtypeName(DType(i)).str()] = t.contractionFlopsPerSecond[i];
  j["channels_last"] = nlohmann::ordered_json::array();
  for (DType type : t.channelsLast)
    j["channels_last"].push_back(dtypeName(type).str());
  return jsonText(j, 1) + "\n";
}

llvm::Expected<Target> parseTarget(llvm::StringRef text) {
  constexpr int kDepth = 3;
  auto json = parseJson(text, kDepth);
  if (!json)
    return json.takeError();
  if (!json->is_object() || json->value("schema", nlohmann::json()) != kSchema ||
      !json->contains("name") || !(*json)["name"].is_string())
    return makeError("expected a target with \"schema\": \"{0}\" and a \"name\"", kSchema);
  Target t;
  t.name = (*json)["name"];
  for (const auto &[key, value] : json->items())
    if (key != "schema" && key != "name")
      if (llvm::Error e = setField(key, value, t))
        return e;
  return t;
}

} // namespace isthmus
