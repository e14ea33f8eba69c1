#include "ir/text/parser.h"

#include "ir/op_registry.h"
#include "ir/provenance.h"
#include "ir/spelling.h"
#include "ir/text/cursor.h"
#include "ir/verifier.h"
#include "ir/version1.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"

namespace isthmus {
namespace {

constexpr llvm::StringRef kStatements[] = {"input", "param",    "state", "const",
                                           "loss",  "replaced", "output"};

bool beginsStatement(const Token &t) {
  return t.kind == Tok::Value || t.kind == Tok::RBrace ||
         (t.kind == Tok::Word && llvm::is_contained(kStatements, t.text));
}
bool beginsHeader(const Token &t) {
  return t.kind == Tok::Word &&
         (t.text == "weights" || t.text == "record" || t.text == "meta" || t.text == "graph");
}

// A node's line before any name is looked up. Reused from line to line.
struct NodeLine {
  llvm::SmallVector<Token, 4> results, operands;
  Token opToken, callEnd;
  const OpDef *op = nullptr;
  Attrs attrs;
  llvm::SmallVector<Type, 4> types;
  llvm::SmallVector<Token, 4> typeTokens;
};

class Parser {
public:
  Parser(llvm::StringRef text, llvm::StringRef fileName, WeightLookup lookup)
      : c_(text, fileName), lookup_(lookup) {
    g_.sourceFile = fileName.str();
  }

  llvm::Expected<Graph> run() {
    if (parseVersion() && parseHeader() && parseBody())
      parseEnd();
    if (version_ == 1) {
      rolesByName(g_);
      recordFromMeta(g_);
    }
    if (!c_.failed())
      checkWhole();
    if (c_.failed())
      return c_.takeError();
    return std::move(g_);
  }

private:
  bool parseVersion();
  bool parseHeader(); // through the graph's opening brace
  bool parseHeaderStatement();
  bool parseWeightsFile();
  bool parseRecord();
  bool parseGraphLine();
  bool parseBody(); // through the closing brace
  void parseEnd();
  void checkWhole();
  void findLater();

  bool parseStatement();
  bool parseInput(InputKind kind);
  bool parseInitializer(const Token &name, const Type &type, Initializer &init);
  bool parseWeights(const Token &name, const Type &type, Initializer &init);
  bool parseLoss();
  bool parseOutput();
  bool parseRole(OutputRole &role);
  bool parseNode(bool isReplaced = false);
  bool parseNodeLine();
  bool buildNode(NodeId &id, bool isReplaced);
  bool checkDeclared(NodeId id);
  bool parseClauses(NodeId id);
  bool parseClause(NodeId id);
  bool parseGradientOf(NodeId id);
  bool parseProvenance(Provenance &from, bool &isOne);
  bool parseChunk(const Token &value, Provenance &from);
  std::optional<StandIn> acceptRestoring();
  bool setKind(const Token &t, Provenance &from, StandIn kind);

  bool endStatement(const char *alsoWanted = "");
  llvm::StringRef nameOf(const Token &t) { return isthmus::nameOf(t, scratch_); }
  bool checkIsNew(const Token &t);
  bool checkIsPlain(const Token &name, ValueId v, const char *role);
  bool findValue(const Token &t, ValueId &v);
  bool findNode(const Token &t, NodeId &n);
  std::vector<Note> notesOn(llvm::ArrayRef<ValueId> operands);
  // Values that were not built because of a reported error: their uses are not reported again.
  void poison(const Token &t) { poisoned_.insert(nameOf(t)); }

  Cursor c_;
  WeightLookup lookup_;
  Graph g_;
  std::optional<Token> chunkOf_; // what the last node is a chunk of
  // Nodes that name a value which may come later: chunks, and nodes of a gradient.
  std::vector<std::pair<NodeId, Token>> chunks_, gradients_;
  int version_ = kTextVersion;
  llvm::StringSet<> poisoned_;
  llvm::DenseSet<ValueId> outputs_;
  std::vector<Token> outputRoles_; // by output: the word after its name
  NodeLine line_;
  unsigned clauses_ = 0;    // the clauses of the current node, as bits
  std::string lookupError_; // the last error of a lookup, to report it once
  std::string scratch_;
};

// --- The header

bool Parser::parseVersion() {
  c_.skipNewlines();
  if (!c_.atWord("isthmus"))
    return c_.error(c_.tok(), "expected 'isthmus 2', with which every .isth file begins, got " +
                                  shown(c_.tok()));
  c_.advance();
  if (!c_.at(Tok::Number))
    return c_.unexpected("the version of the text form, 1 or 2");
  if (c_.tok().text != "1" && c_.tok().text != "2")
    return c_.error(c_.tok(), "expected version 1 or 2 of the text form, got " + shown(c_.tok()) +
                                  "; a newer isthmus may read it");
  version_ = c_.tok().text == "1" ? 1 : 2;
  c_.advance();
  return endStatement();
}

bool Parser::parseHeader() {
  while (!c_.full()) {
    c_.skipNewlines();
    const char *start = c_.tok().text.begin();
    if (c_.atWord("graph")) {
      if (!parseGraphLine())
        c_.recover(start, beginsStatement);
      return true;
    }
    if (c_.at(Tok::End))
      return !c_.failed() && c_.unexpected("'graph @name {'");
    if (!parseHeaderStatement() || !endStatement())
      c_.recover(start, beginsHeader);
  }
  return false;
}

bool Parser::parseHeaderStatement() {
  if (c_.acceptWord("weights"))
    return parseWeightsFile();
  if (version_ > 1 && c_.acceptWord("record"))
    return parseRecord();
  if (c_.acceptWord("meta")) {
    Token key = c_.tok();
    if (!c_.accept(Tok::Word) && !c_.expect(Tok::String, "a word or a string"))
      return false;
    std::string name = key.kind == Tok::Word ? key.text.str() : nameOf(key).str();
    Token value;
    if (!c_.expect(Tok::Equal, "'='"))
      return false;
    value = c_.tok();
    if (!c_.expect(Tok::String, "a string"))
      return false;
    return g_.meta.try_emplace(name, nameOf(value).str()).second ||
           c_.error(key, "meta " + shown(key) + " is given twice");
  }
  return c_.unexpected("'graph @name {', 'weights', 'record' or 'meta'");
}

bool Parser::parseRecord() {
  Token t = c_.tok();
  if (!(g_.record == GraphRecord()))
    return c_.error(t, "a record is given already");
  Attrs attrs;
  if (!c_.parseAttrs("record", recordDefs(), attrs))
    return false;
  auto record = recordFrom(attrs);
  if (!record)
    return c_.error(t, record.takeError());
  g_.record = std::move(*record);
  return true;
}

bool Parser::parseWeightsFile() {
  Token file = c_.tok();
  if (!c_.expect(Tok::String, "the weights file's name in quotes"))
    return false;
  if (!g_.weightsFile.empty())
    return c_.error(file, "a weights file is named already: " + quoted(g_.weightsFile));
  g_.weightsFile = nameOf(file).str();
  if (g_.weightsFile.empty())
    return c_.error(file, "expected the weights file's name, got an empty one");
  if (!c_.acceptWord("digest"))
    return true;
  Token digest = c_.tok();
  if (!c_.expect(Tok::String, "the digest in quotes"))
    return false;
  g_.weightsDigest = nameOf(digest).str();
  return !g_.weightsDigest.empty() || c_.error(digest, "expected a digest, got an empty one");
}

bool Parser::parseGraphLine() {
  c_.advance();
  Token name = c_.tok();
  if (!c_.expect(Tok::At, "the graph's name, such as '@main'"))
    return false;
  g_.name = nameOf(name).str();
  return c_.expect(Tok::LBrace, "'{'") && endStatement();
}

// --- The body

bool Parser::endStatement(const char *alsoWanted) {
  if (c_.at(Tok::Newline) || c_.at(Tok::End))
    return true;
  return c_.unexpected(std::string(alsoWanted) + "the end of the line");
}

bool Parser::parseBody() {
  while (!c_.full()) {
    c_.skipNewlines();
    if (c_.at(Tok::End))
      return c_.unexpected("'}' to close the graph");
    if (c_.accept(Tok::RBrace))
      return true;
    const char *start = c_.tok().text.begin();
    if (!parseStatement())
      c_.recover(start, beginsStatement);
  }
  return false;
}

void Parser::parseEnd() {
  c_.skipNewlines();
  if (!c_.at(Tok::End))
    c_.unexpected("nothing after the graph: a file has one");
}

// Checks that need the whole graph.
void Parser::checkWhole() {
  findLater();
  if (c_.failed())
    return;
  inferStandIns(g_);
  for (const Violation &v : violationsOf(g_, {.inferTypes = false})) {
    if (c_.full())
      return;
    if (v.output) {
      c_.error(outputRoles_[*v.output], v.message);
      continue;
    }
    Loc loc = v.node ? g_.node(v.node).loc : Loc{1, 1};
    llvm::StringRef rest = c_.source.text;
    for (uint32_t i = 1; i < loc.line; ++i)
      rest = rest.split('\n').second;
    c_.error(rest.substr(loc.column - 1, v.node ? g_.node(v.node).op->name.size() : 1), loc,
             v.message);
  }
}

bool Parser::parseStatement() {
  if (c_.at(Tok::Value))
    return parseNode();
  if (version_ > 1 && c_.acceptWord("replaced"))
    return parseNode(/*isReplaced=*/true);
  for (InputKind k : {InputKind::Input, InputKind::Param, InputKind::State, InputKind::Const})
    if (c_.acceptWord(inputKindName(k)))
      return parseInput(k);
  if (c_.acceptWord("loss"))
    return parseLoss();
  if (c_.acceptWord("output"))
    return parseOutput();
  std::string near = c_.at(Tok::Word) ? didYouMean(c_.tok().text, kStatements) : "";
  if (!near.empty())
    return c_.error(c_.tok(), "expected a statement, got " + shown(c_.tok()) + near);
  return c_.unexpected(
      "a node ('%name = op(...)'), input, param, state, const, replaced, loss, output or '}'");
}

bool Parser::checkIsNew(const Token &t) {
  llvm::StringRef name = nameOf(t);
  ValueId old = g_.find(name);
  if (!old)
    return true;
  NodeId def = g_.value(old).def;
  Loc loc = def ? g_.node(def).loc : g_.value(old).loc;
  return c_.error(t, shown(t) + " is the name of an earlier value; each needs its own",
                  {Note(c_.source.where(loc), shown(t) + " comes from here")});
}

bool Parser::findValue(const Token &t, ValueId &v) {
  llvm::StringRef name = nameOf(t);
  v = g_.find(name);
  if (v)
    return true;
  if (poisoned_.count(name))
    return false;
  // Misspelled values were usually defined nearby, and the bound keeps huge broken files fast.
  constexpr size_t kSearched = 2000;
  std::vector<llvm::StringRef> known;
  for (size_t i = g_.numValues(); i > 0 && known.size() < kSearched; --i)
    known.push_back(g_.valueName(ValueId(uint32_t(i - 1))));
  return c_.error(t, "no value " + shown(t) + " comes before this" + didYouMean(name, known, "%"));
}

bool Parser::parseInput(InputKind kind) {
  Token name = c_.tok(), typeToken;
  if (!c_.expect(Tok::Value, "a name such as '%x'"))
    return false;
  Type type;
  Initializer init;
  bool ok = checkIsNew(name) && c_.expect(Tok::Colon, "':' and a type");
  typeToken = c_.tok();
  ok = ok && c_.parseType(type);
  if (ok && !type.isValid())
    ok = c_.error(typeToken, "expected a type of at most 2^60 bytes, got " + type.str());
  if (ok && c_.accept(Tok::Equal))
    ok = parseInitializer(name, type, init);
  else if (ok)
    ok = endStatement("'=' or ");
  if (ok && endStatement()) {
    auto v = g_.addInput(kind, nameOf(name), type, std::move(init), name.loc);
    if (v)
      return true;
    c_.error(name, v.takeError());
  }
  poison(name);
  return false;
}

// Reads the name of a generator (fill, normal, uniform), if there is one.
std::optional<Initializer::Kind> acceptGenerator(Cursor &c) {
  using Kind = Initializer::Kind;
  for (Kind k : {Kind::Fill, Kind::Normal, Kind::Uniform})
    if (c.acceptWord(initializerName(k)))
      return k;
  return std::nullopt;
}

bool Parser::parseInitializer(const Token &name, const Type &type, Initializer &init) {
  Token t = c_.tok();
  if (c_.at(Tok::LBracket)) {
    init.kind = Initializer::Kind::Data;
    return c_.parseElements(type, init.data);
  }
  if (c_.acceptWord("file"))
    return parseWeights(name, type, init);
  if (c_.atWord("zeros") || c_.atWord("ones")) {
    init.kind = Initializer::Kind::Fill;
    init.args.set("value", c_.atWord("ones") ? 1.0 : 0.0);
    c_.advance();
    return true;
  }
  if (auto kind = acceptGenerator(c_)) {
    init.kind = *kind;
    if (!c_.parseAttrs(initializerName(*kind), initializerArgs(*kind), init.args))
      return false;
    if (llvm::Error e = completeInitializer(init, type))
      return c_.error(t, std::move(e));
    return true;
  }
  return c_.unexpected("normal, uniform, fill, zeros, ones, file or elements in '[...]'");
}

bool Parser::parseWeights(const Token &name, const Type &type, Initializer &init) {
  Token key = c_.tok();
  if (!c_.expect(Tok::String, "the tensor's name in the weights file, in quotes"))
    return false;
  if (g_.weightsFile.empty())
    return c_.error(
        key, "no weights file is named; put 'weights \"FILE.safetensors\"' before the graph");
  init.kind = Initializer::Kind::Data;
  init.key = nameOf(key).str();
  if (init.key.empty())
    return c_.error(key, "expected the tensor's name, got an empty one");
  if (!lookup_)
    return true;
  auto tensor = lookup_(g_.weightsFile, g_.weightsDigest, init.key);
  if (!tensor) {
    // An error about the whole file is reported once.
    Diag d = firstOf(tensor.takeError());
    bool isNew = d.message != lookupError_;
    lookupError_ = d.message;
    return isNew && c_.error(key, llvm::make_error<DiagError>(std::vector{std::move(d)}));
  }
  if (tensor->type != type)
    return c_.error(key, shown(name) + " is " + type.str() + ", but the weights file has " +
                             tensor->type.str());
  init.data = std::move(*tensor);
  return true;
}

bool Parser::checkIsPlain(const Token &name, ValueId v, const char *role) {
  const Type &type = g_.type(v);
  return type.isPlain() ||
         c_.error(name, llvm::formatv("expected {0} to be a tensor in the device's memory, got {1} "
                                      "of type {2}",
                                      role, shown(name), type.str())
                            .str());
}

bool Parser::parseLoss() {
  Token name = c_.tok();
  ValueId v;
  if (!c_.expect(Tok::Value, "the loss's name, such as '%loss'") || !findValue(name, v))
    return false;
  if (g_.loss)
    return c_.error(name, "the loss is named already: '" + valueText(g_.valueName(g_.loss)) + "'");
  if (!checkIsPlain(name, v, "the loss"))
    return false;
  g_.loss = v;
  return endStatement();
}

bool Parser::parseOutput() {
  Token name = c_.tok();
  ValueId v;
  if (!c_.expect(Tok::Value, "the output's name, such as '%y'") || !findValue(name, v))
    return false;
  if (!outputs_.insert(v).second)
    return c_.error(name, shown(name) + " is an output already");
  if (!checkIsPlain(name, v, "an output"))
    return false;
  OutputRole role;
  outputRoles_.push_back(c_.tok());
  if (version_ > 1) {
    if (!parseRole(role))
      return false;
    role.isRounded = c_.acceptWord("rounded");
  }
  g_.addOutput(v, role);
  return endStatement(version_ > 1 ? "gradient(...), next(...), rounded or " : "");
}

// Parses `gradient(%w)`, `gradient(%w, 2)` or `next(%mean)`; an output without a role is a result.
bool Parser::parseRole(OutputRole &role) {
  if (c_.acceptWord("gradient"))
    role.kind = OutputKind::Gradient;
  else if (c_.acceptWord("next"))
    role.kind = OutputKind::NextState;
  else
    return true;
  if (!c_.expect(Tok::LParen, "'(' and the value that it belongs to"))
    return false;
  Token of = c_.tok();
  if (!c_.expect(Tok::Value, "a name such as '%w'") || !findValue(of, role.of))
    return false;
  if (role.kind == OutputKind::Gradient && c_.accept(Tok::Comma)) {
    int64_t order = 0;
    if (!c_.parseInteger(order, 1, 1000, "the order of the gradient"))
      return false;
    role.order = unsigned(order);
  }
  return c_.expect(Tok::RParen, "')'");
}

// --- Nodes

// With `isReplaced`: a node that chunks replace. It comes after all others, and says where it was.
bool Parser::parseNode(bool isReplaced) {
  NodeId id;
  bool ok = parseNodeLine();
  bool isBuilt = ok && buildNode(id, isReplaced);
  if (!isBuilt) {
    for (const Token &t : line_.results)
      poison(t);
    return false;
  }
  chunkOf_.reset();
  const bool isRead = checkDeclared(id) && parseClauses(id);
  if (isRead && chunkOf_)
    chunks_.emplace_back(id, *chunkOf_);
  return isRead;
}

// Chunks stand before the values that they restore, and a plan may move a backward node before the
// forward node of whose gradient it is.
void Parser::findLater() {
  for (const auto &[id, name] : chunks_)
    findValue(name, g_.editNode(id).from.restores);
  for (const auto &[id, name] : gradients_)
    findNode(name, g_.editNode(id).from.gradientOf);
}

// Parses `%a, %b = op(%x, %y) {attribute = value} : type, type`, without the clauses that follow.
bool Parser::parseNodeLine() {
  line_.results.clear();
  line_.operands.clear();
  line_.types.clear();
  line_.typeTokens.clear();
  line_.attrs = Attrs();
  do {
    line_.results.push_back(c_.tok());
    if (!c_.at(Tok::Value)) {
      line_.results.pop_back();
      return c_.unexpected("a result's name");
    }
    c_.advance();
  } while (c_.accept(Tok::Comma));
  if (!c_.expect(Tok::Equal, "'=' and an op"))
    return false;
  line_.opToken = c_.tok();
  if (!c_.expect(Tok::Word, "an op's name"))
    return false;
  line_.op = OpRegistry::get().find(line_.opToken.text);
  if (!line_.op) {
    std::string near = OpRegistry::get().nearNames(line_.opToken.text);
    return c_.error(line_.opToken, "no op is called " + shown(line_.opToken) +
                                       (near.empty() ? "; `isthmus ops` lists them" : near));
  }
  bool ok = c_.list(Tok::LParen, Tok::RParen, "'(' and the operands", [&] {
    line_.operands.push_back(c_.tok());
    if (!c_.expect(Tok::Value, "an operand such as '%x'"))
      return false;
    line_.callEnd = c_.tok();
    return true;
  });
  if (!ok || !c_.parseAttrs(line_.op->name, line_.op->attrs, line_.attrs))
    return false;
  if (!c_.accept(Tok::Colon))
    return true;
  do {
    line_.typeTokens.push_back(c_.tok());
    line_.types.emplace_back();
    if (!c_.parseType(line_.types.back()))
      return false;
  } while (c_.accept(Tok::Comma));
  return true;
}

bool Parser::buildNode(NodeId &id, bool isReplaced) {
  llvm::SmallVector<ValueId, 8> operands(line_.operands.size());
  bool ok = true;
  for (size_t i = 0; i < operands.size(); ++i)
    ok &= findValue(line_.operands[i], operands[i]);
  llvm::SmallVector<std::string, 4> names;
  for (const Token &t : line_.results) {
    ok &= checkIsNew(t);
    names.push_back(nameOf(t).str());
    for (size_t i = 0; i + 1 < names.size(); ++i)
      if (names[i] == names.back())
        ok = c_.error(t, shown(t) + " names two results; each needs its own");
  }
  if (!ok)
    return false;
  auto node = isReplaced ? g_.addReplaced(*line_.op, operands, std::move(line_.attrs), names,
                                          Phase::Forward)
                         : g_.addNode(*line_.op, operands, std::move(line_.attrs), names);
  if (!node) {
    // Underline from the op to the closing bracket.
    const char *begin = line_.opToken.text.begin(), *end = line_.opToken.text.end();
    if (!line_.operands.empty())
      end = line_.callEnd.text.end();
    return c_.error(llvm::StringRef(begin, end - begin), line_.opToken.loc,
                    firstOf(node.takeError()).message, notesOn(operands));
  }
  id = *node;
  g_.editNode(id).loc = line_.opToken.loc;
  return true;
}

std::vector<Note> Parser::notesOn(llvm::ArrayRef<ValueId> operands) {
  constexpr size_t kMost = 4;
  std::vector<Note> notes;
  llvm::SmallVector<ValueId, 4> seen;
  for (ValueId v : operands) {
    if (llvm::is_contained(seen, v) || notes.size() == kMost)
      continue;
    seen.push_back(v);
    NodeId def = g_.value(v).def;
    notes.emplace_back(c_.source.where(def ? g_.node(def).loc : g_.value(v).loc),
                       "'" + valueText(g_.valueName(v)) + "' comes from here");
  }
  return notes;
}

// Compares the results that the line names and declares with those of the node that was built.
bool Parser::checkDeclared(NodeId id) {
  const Node &n = g_.node(id);
  size_t named = line_.results.size();
  if (named != n.numResults)
    return c_.error(line_.results[0], "'" + n.op->name + "' gives " + std::to_string(n.numResults) +
                                          (n.numResults == 1 ? " result" : " results") + " (" +
                                          n.op->results + "), but " + std::to_string(named) +
                                          (named == 1 ? " is" : " are") + " named");
  if (line_.types.empty())
    return true;
  if (line_.types.size() != named)
    return c_.error(line_.typeTokens[0],
                    "expected " + std::to_string(named) + (named == 1 ? " type" : " types") +
                        ", one for each result, got " + std::to_string(line_.types.size()));
  for (uint32_t i = 0; i < n.numResults; ++i)
    if (line_.types[i] != g_.type(n.result(i)))
      return c_.error(line_.typeTokens[i], "'" + n.op->name + "' gives " +
                                               g_.type(n.result(i)).str() + " here, but " +
                                               line_.types[i].str() + " is declared");
  return true;
}

bool Parser::parseClauses(NodeId id) {
  clauses_ = 0;
  while (!c_.at(Tok::Newline) && !c_.at(Tok::End))
    if (!parseClause(id))
      return false;
  return true;
}

// Finds the node whose first result `t` names.
bool Parser::findNode(const Token &t, NodeId &n) {
  ValueId v;
  if (!findValue(t, v))
    return false;
  n = g_.value(v).def;
  if (!n)
    return c_.error(t, "expected the first result of a node, got the graph input " + shown(t));
  if (g_.value(v).resultIndex != 0)
    return c_.error(t, "expected the first result of its node, '" + valueText(g_.nodeName(n)) +
                           "', got " + shown(t));
  return true;
}

// Parses what may follow `backward`: the forward node of whose gradient the node is, `(%a)`.
bool Parser::parseGradientOf(NodeId id) {
  if (!c_.accept(Tok::LParen))
    return true;
  const Token t = c_.tok();
  if (!c_.expect(Tok::Value, "a name such as '%x'") || !c_.expect(Tok::RParen, "')'"))
    return false;
  if (g_.find(nameOf(t)))
    return findNode(t, g_.editNode(id).from.gradientOf);
  gradients_.emplace_back(id, t);
  return true;
}

bool Parser::parseClause(NodeId id) {
  Node &n = g_.editNode(id);
  Token t = c_.tok();
  enum : unsigned { kPhase = 1, kFrom = 2, kDevice = 4 };
  auto once = [&](unsigned bit, const char *what) {
    if (clauses_ & bit)
      return c_.error(t, std::string("the node has ") + what + " already");
    clauses_ |= bit;
    return true;
  };
  for (Phase p : {Phase::Forward, Phase::Backward, Phase::Update})
    if (c_.acceptWord(phaseName(p))) {
      n.phase = p;
      return once(kPhase, "a phase") &&
             (p != Phase::Backward || version_ == 1 || parseGradientOf(id));
    }
  if (c_.accept(Tok::Mark)) {
    llvm::StringRef mark = nameOf(t);
    if (n.hasMark(mark))
      return c_.error(t, "the node has the mark " + shown(t) + " already");
    n.marks.push_back(mark.str());
    return true;
  }
  if (c_.accept(Tok::At)) {
    n.device = nameOf(t).str();
    if (!isDeviceName(n.device))
      return c_.error(t, "expected a device such as '@cpu:0', got " + shown(t));
    return once(kDevice, "a device");
  }
  bool isOne = false;
  if (version_ > 1 && c_.acceptWord("from"))
    return once(kFrom, "'from'") &&
           c_.list(Tok::LParen, Tok::RParen, "'(' and where the node comes from", [&] {
             bool ok = parseProvenance(n.from, isOne);
             return isOne ? ok
                          : c_.unexpected(
                                "clone(...), boundary(...), inverse(...), helper(...), "
                                "encoding(...), transfer(...), chunk(...), after(...) or at(...)");
           });
  if (version_ == 1)
    if (bool ok = parseProvenance(n.from, isOne); isOne)
      return ok;
  std::string types = line_.types.empty() ? "': type', " : "";
  return c_.unexpected(types +
                       (version_ > 1 ? "a phase, from(...), a device, a mark"
                                     : "a phase, clone(...), boundary(...), after(...), "
                                       "at(...), a device, a mark") +
                       " or the end of the line");
}

// The kind of a node that restores a value, as the current word says it; StandIn::None if it does
// not say which.
std::optional<StandIn> Parser::acceptRestoring() {
  if (c_.acceptWord(version_ > 1 ? "restores" : "boundary"))
    return StandIn::None;
  for (StandIn kind : kRestoring)
    if (version_ > 1 && c_.acceptWord(standInName(kind)))
      return kind;
  return std::nullopt;
}

bool Parser::setKind(const Token &t, Provenance &from, StandIn kind) {
  if (from.kind != StandIn::None || (from.restores && kind == StandIn::Clone))
    return c_.error(t, "a node stands for one thing, and this one stands for another already");
  from.kind = kind;
  return true;
}

// Parses the rest of `chunk(%a, 3)`.
bool Parser::parseChunk(const Token &value, Provenance &from) {
  int64_t number = 0;
  if (!c_.expect(Tok::Value, "a name such as '%x'") ||
      !c_.expect(Tok::Comma, "',' and the number of the chunk") ||
      !c_.parseInteger(number, 0, UINT32_MAX, "the number of the chunk") ||
      !c_.expect(Tok::RParen, "')'"))
    return false;
  from.chunk = uint32_t(number);
  chunkOf_ = value;
  return true;
}

// Parses an item of `from(inverse(%a), after(%b, %c), at(17))`. In version 1 each item is a clause
// of its own, and `boundary` is said of every node that restores a value, as `restores` is in some
// files of version 2; inferStandIns then finds the kind. Sets `isOne` to whether there was an item;
// returns false if it is wrong.
bool Parser::parseProvenance(Provenance &from, bool &isOne) {
  Token t = c_.tok();
  isOne = true;
  auto once = [&](bool isGiven) {
    return !isGiven || c_.error(t, "the node has " + shown(t) + " already");
  };
  auto parseNodeName = [&](NodeId &n) {
    const Token name = c_.tok();
    return c_.expect(Tok::Value, "a name such as '%x'") && findNode(name, n);
  };
  if (c_.acceptWord("clone"))
    return once(bool(from.origin)) &&
           c_.expect(Tok::LParen, "'(' and the node that is recomputed") &&
           parseNodeName(from.origin) && c_.expect(Tok::RParen, "')'") &&
           setKind(t, from, StandIn::Clone);
  if (const auto kind = acceptRestoring()) {
    if (!once(bool(from.restores)) || !c_.expect(Tok::LParen, "'(' and the value that it restores"))
      return false;
    Token value = c_.tok();
    if (!setKind(t, from, *kind))
      return false;
    if (*kind == StandIn::Chunk)
      return parseChunk(value, from);
    return c_.expect(Tok::Value, "a name such as '%x'") && findValue(value, from.restores) &&
           c_.expect(Tok::RParen, "')'");
  }
  if (c_.acceptWord("after"))
    return once(!from.after.empty()) &&
           c_.list(Tok::LParen, Tok::RParen, "'(' and the nodes to run before", [&] {
             NodeId earlier;
             if (!parseNodeName(earlier))
               return false;
             from.after.push_back(earlier);
             return true;
           });
  if (c_.acceptWord("at")) {
    int64_t index = 0;
    if (!once(from.sourceIndex.has_value()) ||
        !c_.expect(Tok::LParen, "'(' and the place in the source") ||
        !c_.parseInteger(index, 0, UINT32_MAX, "the place in the source") ||
        !c_.expect(Tok::RParen, "')'"))
      return false;
    from.sourceIndex = uint32_t(index);
    return true;
  }
  isOne = false;
  return true;
}

} // namespace

llvm::Expected<Graph> parseGraph(llvm::StringRef text, llvm::StringRef fileName,
                                 WeightLookup lookup) {
  return Parser(text, fileName, lookup).run();
}

llvm::Expected<CallText> parseCall(llvm::StringRef text) {
  Cursor c(text, "call");
  CallText call;
  Token name = c.tok();
  auto parse = [&] {
    if (!c.expect(Tok::Word, "an op's name"))
      return false;
    call.op = OpRegistry::get().find(name.text);
    if (!call.op)
      return c.error(name, "no op is called " + shown(name));
    bool ok = c.list(Tok::LParen, Tok::RParen, "'(' and the operands' types", [&] {
      call.operands.emplace_back();
      return c.parseType(call.operands.back());
    });
    if (!ok || !c.parseAttrs(call.op->name, call.op->attrs, call.attrs))
      return false;
    if (llvm::Error e = completeAttrs(*call.op, call.attrs))
      return c.error(name, std::move(e));
    return c.at(Tok::End) || c.unexpected("the end");
  };
  if (!parse())
    return c.takeError();
  return call;
}

llvm::Expected<Initializer> parseInitializer(llvm::StringRef text) {
  Cursor c(text, "initializer");
  Initializer init;
  auto parse = [&] {
    auto kind = acceptGenerator(c);
    if (!kind)
      return c.unexpected("normal, uniform or fill");
    init.kind = *kind;
    return c.parseAttrs(initializerName(*kind), initializerArgs(*kind), init.args) &&
           (c.at(Tok::End) || c.unexpected("the end"));
  };
  if (!parse())
    return c.takeError();
  return init;
}

llvm::Expected<GraphRecord> parseRecord(llvm::StringRef text) {
  Cursor c(text, "record");
  Attrs attrs;
  if (!c.parseAttrs("record", recordDefs(), attrs) || !(c.at(Tok::End) || c.unexpected("the end")))
    return c.takeError();
  return recordFrom(attrs);
}

llvm::Expected<Type> parseType(llvm::StringRef text) {
  Cursor c(text, "type");
  Type type;
  if (!c.parseType(type) || !(c.at(Tok::End) || c.unexpected("the end")))
    return c.takeError();
  if (!type.isValid())
    return makeError("expected a type of at most 2^60 bytes, got {0}", type.str());
  return type;
}

} // namespace isthmus
