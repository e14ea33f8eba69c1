#include "ir/json.h"

#include "llvm/ADT/StringSet.h"

namespace isthmus {

using Json = nlohmann::json;

namespace {

// Makes the values of a text, and stops the parser at the first error. (The parser that takes a
// callback goes on after an error, and takes time by the square of an array's length.)
class Reader {
public:
  Reader(Json &made, int deepest)
      : values_(made, /*allow_exceptions=*/false), deepest_(size_t(deepest)) {}

  const std::string &problem() const { return problem_; }

  // The interface of nlohmann's parser. Each function returns whether the parser goes on.
  bool null() { return values_.null(); }
  bool boolean(bool v) { return values_.boolean(v); }
  bool number_integer(Json::number_integer_t v) { return values_.number_integer(v); }
  bool number_unsigned(Json::number_unsigned_t v) { return values_.number_unsigned(v); }
  bool number_float(Json::number_float_t v, const std::string &text) {
    return values_.number_float(v, text);
  }
  bool string(std::string &v) { return values_.string(v); }
  bool binary(Json::binary_t &v) { return values_.binary(v); }
  bool start_object(size_t count) { return open() && values_.start_object(count); }
  bool key(std::string &name) {
    if (!keys_.back().insert(name).second)
      return fails("key '" + name + "' is given twice");
    return values_.key(name);
  }
  bool end_object() { return close() && values_.end_object(); }
  bool start_array(size_t count) { return open() && values_.start_array(count); }
  bool end_array() { return close() && values_.end_array(); }
  template <typename Error> bool parse_error(size_t at, const std::string &token, const Error &e) {
    return values_.parse_error(at, token, e);
  }

private:
  bool open() {
    if (keys_.size() == deepest_)
      return fails(llvm::formatv("it is nested more than {0} deep", deepest_).str());
    keys_.emplace_back();
    return true;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }
  bool fails(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  nlohmann::detail::json_sax_dom_parser<Json> values_;
  size_t deepest_;
  std::vector<llvm::StringSet<>> keys_; // of each open object; empty for an array
  std::string problem_;
};

} // namespace

llvm::Expected<Json> parseJson(llvm::StringRef text, int deepest) {
  Json j;
  Reader reader(j, deepest);
  const bool isParsed = Json::sax_parse(text.begin(), text.end(), &reader);
  if (!reader.problem().empty())
    return makeError("expected JSON, and {0}", reader.problem());
  if (!isParsed)
    return makeError("expected JSON; it cannot be parsed");
  return j;
}

} // namespace isthmus
