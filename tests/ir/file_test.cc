// Files are written whole or not at all. Weights are read back bit for bit, and a broken weights
// file is an error.

#include "ir/equal_graphs.h"
#include "ir/file.h"
#include "ir/safetensors.h"
#include "ir/text/isth_file.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <fcntl.h>
#include <gtest/gtest.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

using namespace isthmus;

namespace {

class InFolder : public testing::Test {
protected:
  void SetUp() override {
    llvm::SmallString<128> made;
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("isthmus", made));
    folder = made.str().str();
  }
  void TearDown() override { llvm::sys::fs::remove_directories(folder); }

  std::string in(llvm::StringRef name) const { return folder + "/" + name.str(); }
  void write(llvm::StringRef name, llvm::StringRef bytes) {
    EXPECT_EQ(llvm::toString(writeFileAtomically(in(name), bytes)), "");
  }
  static std::string contents(const std::string &path) {
    auto b = readFile(path);
    return b ? (*b)->getBuffer().str() : llvm::toString(b.takeError());
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    std::error_code ec;
    for (llvm::sys::fs::directory_iterator i(folder, ec), e; i != e && !ec; i.increment(ec))
      out.push_back(llvm::sys::path::filename(i->path()).str());
    llvm::sort(out);
    return out;
  }

  std::string folder;
};

using File = InFolder;
using Weights = InFolder;
using Isth = InFolder;

TEST_F(File, IsReplacedWhole) {
  write("a", "one");
  ASSERT_EQ(::chmod(in("a").c_str(), 0640), 0);
  write("a", "two");
  EXPECT_EQ(contents(in("a")), "two");
  struct stat s;
  ASSERT_EQ(::stat(in("a").c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0640u);
  EXPECT_EQ(names(), std::vector<std::string>{"a"});
}

TEST_F(File, StaysWhenWritingFails) {
  write("a", "one");
  llvm::Error e = writeFileAtomically(in("a"), [](llvm::raw_pwrite_stream &os) -> llvm::Error {
    os << "half";
    return makeError("stopped");
  });
  EXPECT_EQ(llvm::toString(std::move(e)), "error: stopped");
  EXPECT_EQ(contents(in("a")), "one");
  EXPECT_EQ(names(), std::vector<std::string>{"a"});
}

TEST_F(File, SaysWhatIsWrong) {
  EXPECT_EQ(llvm::toString(readFile(in("none")).takeError()),
            "error: cannot read '" + in("none") + "': No such file or directory");
  EXPECT_EQ(llvm::toString(writeFileAtomically(in("no/such"), "x")),
            "error: cannot write '" + in("no/such") + "': No such file or directory");
  EXPECT_EQ(llvm::toString(writeFileAtomically(folder, "x")),
            "error: cannot write '" + folder + "': Is a directory");
  EXPECT_EQ(llvm::toString(writeFileAtomically("/dev/full", "x")),
            "error: cannot write '/dev/full': No space left on device");
}

TEST_F(File, DevicesAndLinksAreNotReplaced) {
  EXPECT_EQ(llvm::toString(writeFileAtomically("/dev/null", "x")), "");
  write("a", "one");
  ASSERT_EQ(::symlink("a", in("link").c_str()), 0);
  write("link", "two");
  EXPECT_EQ(contents(in("a")), "two");
  EXPECT_TRUE(llvm::sys::fs::is_symlink_file(in("link")));
}

// All files are filled before the first of them replaces an old file.
TEST_F(File, ThoseThatBelongTogetherStayTogether) {
  write("a", "old a");
  auto fill = [](llvm::raw_pwrite_stream &os) {
    os << "new";
    return llvm::Error::success();
  };
  auto fail = [](llvm::raw_pwrite_stream &os) -> llvm::Error { return makeError("stopped"); };
  EXPECT_NE(llvm::toString(writeFilesTogether({{in("a"), fill}, {in("b"), fail}})), "");
  EXPECT_NE(llvm::toString(writeFilesTogether({{in("a"), fill}, {folder, fill}})), "");
  EXPECT_EQ(contents(in("a")), "old a");
  EXPECT_EQ(names(), std::vector<std::string>{"a"});
  EXPECT_EQ(llvm::toString(writeFilesTogether({{in("a"), fill}, {in("b"), fill}})), "");
  EXPECT_EQ(contents(in("a")) + contents(in("b")), "newnew");
  EXPECT_EQ(names(), (std::vector<std::string>{"a", "b"}));
}

TEST_F(File, OfAnyLengthOfName) {
  const std::string longest(255, 'n'); // the longest name that file systems accept
  write(longest, "x");
  EXPECT_EQ(names(), std::vector<std::string>{longest});
}

TEST_F(File, OneFileHasOneIdentity) {
  write("a", "one");
  ASSERT_EQ(::symlink("a", in("link").c_str()), 0);
  ASSERT_EQ(::symlink("new", in("dangling").c_str()), 0);
  ASSERT_EQ(::link(in("a").c_str(), in("hard").c_str()), 0);
  ASSERT_EQ(::symlink(".", in("here").c_str()), 0);
  for (const char *name : {"link", "hard", "here/a",

                           "here/link", "./a"})
    EXPECT_EQ(fileIdentity(in(name)), fileIdentity(in("a"))) << name;
  for (const char *name : {"dangling", "here/new", "here/here/dangling", "none/../new"})
    EXPECT_EQ(fileIdentity(in(name)), fileIdentity(in("new"))) << name;
  EXPECT_NE(fileIdentity(in("new")), fileIdentity(in("newer")));
  ASSERT_EQ(::symlink("circle", in("circle").c_str()), 0);
  EXPECT_NE(llvm::toString(writeFileAtomically(in("circle"), "x")), "");
  EXPECT_NE(llvm::toString(checkCanBeWritten(in("circle"))), "");
  write("dangling", "made"); // writes through the link
  EXPECT_EQ(contents(in("new")), "made");
}

TEST_F(File, WithinAFolder) {
  ASSERT_FALSE(llvm::sys::fs::create_directory(in("sub")));
  ASSERT_EQ(::symlink("..", in("sub/up").c_str()), 0);
  EXPECT_EQ(pathWithin(folder, in("a")), "a");
  EXPECT_EQ(pathWithin(folder, in("sub/../a")), "a");
  EXPECT_EQ(pathWithin(folder, in("sub/up/a")), "a");
  EXPECT_EQ(pathWithin(in("sub"), in("sub/deep/a")), "deep/a");
  EXPECT_EQ(pathWithin(in("sub"), in("subway/a")), std::nullopt);
  EXPECT_EQ(pathWithin(in("sub"), in("a")), std::nullopt);
  EXPECT_EQ(pathWithin(in("sub"), in("sub/up/a")), std::nullopt);
  EXPECT_EQ(pathWithin(".", "x"), "x");
}

Tensor counted(const Type &type) {
  return Tensor::make(type, [&](char *p) {
    for (int64_t i = 0; i < type.bytes(); ++i)
      p[i] = type.dtype == DType::Bool ? i % 2 : char(i * 7 + 1);
  });
}

TEST_F(Weights, ComeBackBitForBit) {
  std::vector<NamedTensor> tensors;
  for (DType t : {DType::Bool, DType::F32, DType::F64, DType::BF16, DType::F16, DType::I32,
                  DType::I64, DType::U8})
    tensors.push_back({"a/" + dtypeName(t).str() + " \"ü\"", counted(Type(t, {3, 5}))});
  tensors.push_back({"scalar", counted(Type(DType::F64, {}))});
  tensors.push_back({"empty", counted(Type(DType::F32, {0, 7}))});
  ASSERT_EQ(llvm::toString(writeSafetensors(in("w"), tensors, {{"made by", "a test"}})), "");
  auto file = Safetensors::open(in("w"));
  ASSERT_TRUE(bool(file)) << llvm::toString(file.takeError());
  EXPECT_EQ(file->entries().size(), tensors.size());
  EXPECT_EQ(file->metadata().at("made by"), "a test");
  for (const NamedTensor &t : tensors) {
    auto found = file->find(t.name);
    ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
    EXPECT_EQ(found->type, t.tensor.type);
    EXPECT_EQ(memcmp(found->data, t.tensor.data, t.tensor.bytes()), 0) << t.name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(found->data) % dtypeBytes(found->type.dtype), 0u);
  }
  EXPECT_EQ(llvm::toString(file->find("scaler").takeError()),
            "error: '" + in("w") + "' has no tensor 'scaler'; did you mean 'scalar'?");
}

// --- Files that another program changes while they are open

class Source : public InFolder {
protected:
  // Overwrites part of a file in place.
  void writeInto(llvm::StringRef name, off_t at, llvm::StringRef bytes) const {
    const int fd = ::open(in(name).c_str(), O_WRONLY);
    ASSERT_EQ(::pwrite(fd, bytes.data(), bytes.size(), at), ssize_t(bytes.size()));
    const struct timespec later[] = {{4'000'000'000, 0}, {4'000'000'000, 0}}; // whatever the clock
    ASSERT_EQ(::futimens(fd, later), 0);
    ::close(fd);
  }
  static std::string textOf(const SourceFile &file, uint64_t offset, size_t count) {
    std::string bytes(count, '\0');
    llvm::Error e = file.read(offset, {bytes.data(), count});
    return e ? llvm::toString(std::move(e)) : bytes;
  }
};

TEST_F(Source, IsReadInParts) {
  write("a", "0123456789");
  auto file = llvm::cantFail(SourceFile::open(in("a")));
  EXPECT_EQ(file->size(), 10u);
  EXPECT_EQ(textOf(*file, 3, 4), "3456");
  EXPECT_EQ(textOf(*file, 10, 0), "");
  EXPECT_EQ(llvm::cantFail(file->readAll())->getBuffer(), "0123456789");
}

TEST_F(Source, IsTheOldFileAfterItWasReplaced) {
  write("a", "old");
  auto file = llvm::cantFail(SourceFile::open(in("a")));
  write("a", "new and longer");
  EXPECT_EQ(textOf(*file, 0, 3), "old");
}

TEST_F(Source, IsAnErrorAfterItWasChanged) {
  write("a", std::string(8192, 'a'));
  auto file = llvm::cantFail(SourceFile::open(in("a")));
  auto whole = llvm::cantFail(file->readAll());
  writeInto("a", 100, "bbbb");
  EXPECT_EQ(textOf(*file, 0, 4), "error: '" + in("a") +
                                     "' was changed by another program while it was read: expected "
                                     "the 8192 bytes that it had when it was opened, found a later "
                                     "modification; read it again when it is complete");
  ASSERT_EQ(::truncate(in("a").c_str(), 10), 0);
  EXPECT_NE(textOf(*file, 4096, 4).find("found 10; read it again"), std::string::npos);
  EXPECT_NE(llvm::toString(file->readAll().takeError()), "");
  EXPECT_EQ(whole->getBuffer(), std::string(8192, 'a')); // what was read is not in the file
}

TEST_F(Source, HasHolesThatTakeNoMemory) {
  write("a", "begin");
  ASSERT_EQ(::truncate(in("a").c_str(), off_t(1) << 38), 0); // 256 GiB
  auto file = llvm::cantFail(SourceFile::open(in("a")));
  auto bytes = llvm::cantFail(file->readAll());
  EXPECT_EQ(bytes->getBuffer().take_front(8), llvm::StringRef("begin\0\0\0", 8));
  EXPECT_EQ(bytes->getBufferSize(), size_t(1) << 38);
  const Tensor t =
      llvm::cantFail(file->readTensor(Type(DType::U8, {int64_t(1) << 36}), 2));
  EXPECT_EQ(std::string(t.data, 4), std::string("gin\0", 4));
}

TEST_F(Source, HasTensorsOfItsOwnBytes) {
  write("a", std::string("\1\0\7\0abcd", 8));
  auto file = llvm::cantFail(SourceFile::open(in("a")));
  const Tensor t = llvm::cantFail(file->readTensor(Type(DType::Bool, {4}), 0));
  EXPECT_EQ(std::string(t.data, 4), std::string("\1\0\1\0", 4));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data) % 64, 0u);
  EXPECT_EQ(llvm::cantFail(file->readTensor(Type(DType::F32, {0}), 8)).bytes(), 0);
}

std::string withHeader(llvm::StringRef header, size_t dataBytes = 0) {
  std::string s(8, '\0');
  s[0] = char(header.size());
  s[1] = char(header.size() >> 8);
  return s + header.str() + std::string(dataBytes, 'x');
}

std::string problemOf(llvm::StringRef bytes) {
  auto file = Safetensors::parse(SourceFile::of(llvm::MemoryBuffer::getMemBufferCopy(bytes), "w"), "w");
  return file ? "" : llvm::toString(file.takeError());
}

TEST_F(Weights, BrokenFilesAreTold) {
  const std::string start = "error: 'w' is no safetensors file: ";
  EXPECT_EQ(problemOf(""), start + "expected a length of 8 bytes, got a file of 0");
  EXPECT_EQ(problemOf("\xff\xff\xff\xff\xff\xff\xff\xff{}"),
            start + "expected a header of 18446744073709551615 bytes, got 2 in the file");
  EXPECT_EQ(problemOf(withHeader("[1]")), start + "its header is no JSON object");
  const std::string noJson = start + "its header is no JSON object: expected JSON";
  EXPECT_EQ(problemOf(withHeader("{\"a\"")), noJson + "; it cannot be parsed");
  EXPECT_EQ(problemOf(withHeader("{\"\xff\":1}")), noJson + "; it cannot be parsed");
  EXPECT_EQ(problemOf(withHeader(std::string(50000, '['))),
            noJson + ", and it is nested more than 3 deep");
  EXPECT_EQ(problemOf(withHeader(R"({"a":1,"a":2})")), noJson + ", and key 'a' is given twice");
  EXPECT_EQ(problemOf(withHeader(R"({"a":3})")),
            start + "tensor 'a' lacks dtype, shape or two data_offsets");
  EXPECT_EQ(problemOf(withHeader(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4)),
            start + "tensor 'a' has a size that is no integer from 0 to 2^63-1");
  EXPECT_EQ(problemOf(withHeader(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4)),
            start + "tensor 'a' has a size that is no integer from 0 to 2^63-1");
  EXPECT_EQ(problemOf(withHeader(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,-4]}})", 4)),
            start + "tensor 'a' has offsets that are no integers from 0 to 2^63-1");
  EXPECT_EQ(problemOf(withHeader(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,5]}})", 4)),
            start + "tensor 'a' lies at [0, 5) of 4 bytes");
  EXPECT_EQ(problemOf(withHeader(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4)),
            start + "tensor 'a' lies at [4, 0) of 4 bytes");
  EXPECT_EQ(problemOf(withHeader(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4)),
            start + "tensor 'a' is f32[2], which takes 8 bytes, but has 4");
  EXPECT_EQ(problemOf(withHeader(
                R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})")),
            start + "tensor 'a' has a type of over 2^60 bytes");
}

// Bytes that belong to no tensor, or to two tensors, are an error.
TEST_F(Weights, HolesAndOverlapsAreTold) {
  auto two = [](const char *first, const char *second, size_t bytes) {
    return problemOf(
        withHeader(llvm::formatv(R"({{"a":{{"dtype":"U8","shape":[2],"data_offsets":{0}},)"
                                 R"("b":{{"dtype":"U8","shape":[2],"data_offsets":{1}}})",
                                 first, second)
                       .str(),
                   bytes));
  };
  EXPECT_EQ(two("[0,2]", "[2,4]", 4), "");
  EXPECT_EQ(two("[2,4]", "[0,2]", 4), "");
  EXPECT_NE(two("[0,2]", "[1,3]", 3)
                .find("'b' lies at [1, 3), and was expected to begin at 2: it "
                      "overlaps another"),
            std::string::npos);
  EXPECT_NE(two("[0,2]", "[3,5]", 5).find("there is a hole before it"), std::string::npos);
  EXPECT_NE(two("[0,2]", "[0,2]", 2).find("overlaps"), std::string::npos);
  EXPECT_NE(two("[1,3]", "[3,5]", 5).find("'a' lies at [1, 3), and was expected to begin at 0"),
            std::string::npos);
  EXPECT_NE(two("[0,2]", "[2,4]", 5).find("its tensors end at byte 4 of 5"), std::string::npos);
}

TEST_F(Weights, DigestsTellNamesTypesAndBytes) {
  NamedTensor a{"a", counted(Type(DType::I32, {4}))}, b{"b", a.tensor};
  NamedTensor other{"a", counted(Type(DType::F32, {4}))},
      flat{"a", counted(Type(DType::I32, {2, 2}))};
  NamedTensor zero{"a", Tensor::make(a.tensor.type, [](char *) {})};
  std::vector<std::string> all;
  for (const auto &tensors : std::vector<std::vector<NamedTensor>>{
           {}, {a}, {b}, {other}, {flat}, {zero}, {a, b}, {{"a", a.tensor}, {"bb", a.tensor}}})
    all.push_back(digestOf(tensors));
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
  EXPECT_EQ(digestOf({a, b}), digestOf({b, a}));
  EXPECT_EQ(digestOf({a}).size(), 16u);
}

TEST_F(Weights, AreReadOnceWhileTheyAreInUse) {
  write("w", withHeader(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8));
  auto file = llvm::cantFail(Safetensors::open(in("w")));
  const Tensor first = llvm::cantFail(file.find("a")), second = llvm::cantFail(file.find("a"));
  EXPECT_EQ(first.data, second.data);
  ASSERT_EQ(::truncate(in("w").c_str(), 4), 0);
  EXPECT_EQ(std::string(first.data, 8), "xxxxxxxx");
  EXPECT_EQ(llvm::cantFail(file.find("a")).data, first.data);
}

TEST_F(Weights, AreAnErrorIfTheFileWasChanged) {
  write("w", withHeader(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8));
  auto file = llvm::cantFail(Safetensors::open(in("w")));
  ASSERT_EQ(::truncate(in("w").c_str(), 4), 0);
  EXPECT_NE(llvm::toString(file.find("a").takeError()).find("was changed by another program"),
            std::string::npos);
}

TEST_F(Weights, UnknownElementTypesAreAnErrorWhenAskedFor) {
  auto bytes = llvm::MemoryBuffer::getMemBufferCopy(
      withHeader(R"({"a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}})", 2));
  auto file = Safetensors::parse(SourceFile::of(std::move(bytes), "w"), "w");
  ASSERT_TRUE(bool(file)) << llvm::toString(file.takeError());
  EXPECT_EQ(llvm::toString(file->find("a").takeError()),
            "error: tensor 'a' of 'w' has elements of 'F8_E4M3'; expected F32, F64, BF16, F16, "
            "I32, I64, U8 or BOOL");
}

// Returns a graph with a small tensor, a large tensor under an odd name, and, if `huge`, a tensor
// of over 1 MiB.
Graph withWeights(bool huge) {
  Graph g("g");
  auto add = [&](const char *name, const Type &type) {
    Initializer init;
    init.kind = Initializer::Kind::Data;
    init.data = counted(type);
    llvm::cantFail(g.addInput(InputKind::Param, name, type, init));
  };
  add("small", Type(DType::I32, {256}));
  add("a/\xff", Type(DType::I32, {257}));
  if (huge)
    add("huge", Type(DType::U8, {(1 << 20) + 1}));
  return g;
}

Graph loaded(const std::string &path, Outside outside = Outside::Refused) {
  auto g = loadIsth(path, outside);
  if (g)
    return std::move(*g);
  ADD_FAILURE() << llvm::toString(g.takeError());
  return Graph();
}

void expectSameData(const Graph &a, const Graph &b) {
  ASSERT_EQ(a.inputs().size(), b.inputs().size());
  for (size_t i = 0; i < a.inputs().size(); ++i) {
    const Tensor &x = a.inputs()[i].init.data, &y = b.inputs()[i].init.data;
    ASSERT_EQ(x.type, y.type);
    EXPECT_EQ(memcmp(x.data, y.data, x.bytes()), 0);
  }
}

TEST_F(Isth, LargeWeightsLieBeside) {
  Graph g = withWeights(/*huge=*/false);
  ASSERT_EQ(llvm::toString(saveIsth(g, in("m.isth"))), "");
  EXPECT_EQ(names(), (std::vector<std::string>{"m.isth", "m.safetensors"}));
  Graph back = loaded(in("m.isth"));
  EXPECT_EQ(back.weightsFile, "m.safetensors");
  expectSameData(g, back);
  // A file may be saved over itself while its weights are mapped.
  ASSERT_EQ(llvm::toString(saveIsth(back, in("m.isth"))), "");
  std::string reason;
  EXPECT_TRUE(equalGraphs(loaded(in("m.isth")), back, &reason)) << reason;
}

TEST_F(Isth, WeightsGoWhereTheyAreTold) {
  Graph g = withWeights(/*huge=*/false);
  ASSERT_EQ(llvm::toString(saveIsth(g, in("m.isth"), {.weightsPath = in("w.safetensors")})), "");
  EXPECT_EQ(loaded(in("m.isth")).weightsFile, "w.safetensors");
  ASSERT_FALSE(llvm::sys::fs::create_directory(in("sub")));
  ASSERT_EQ(llvm::toString(saveIsth(g, in("m.isth"), {.weightsPath = in("sub/w.safetensors")})),
            "");
  expectSameData(g, loaded(in("m.isth")));
}

TEST_F(Isth, WithoutLargeWeightsThereIsNoOtherFile) {
  Graph g =
      llvm::cantFail(parseGraph("isthmus 1\ngraph @g {\n  const %a : i64[1] = [3]\n}\n", "t"));
  ASSERT_EQ(llvm::toString(saveIsth(g, in("m.isth"))), "");
  EXPECT_EQ(names(), std::vector<std::string>{"m.isth"});
}

TEST_F(Isth, MissingWeightsAreOneError) {
  write("m.isth",
        "isthmus 1\nweights \"w.safetensors\"\ngraph @g {\n  param %a : f32[2] = file \"a\"\n"
        "  param %b : f32[2] = file \"b\"\n}\n");
  auto g = loadIsth(in("m.isth"));
  ASSERT_FALSE(bool(g));
  EXPECT_EQ(llvm::toString(g.takeError()), in("m.isth") + ":4:28: error: cannot read '" +
                                               in("w.safetensors") +
                                               "': No such file or directory\n"
                                               "  param %a : f32[2] = file \"a\"\n"
                                               "                           ^~~");
}

TEST_F(Isth, WeightsOfAnotherTypeAreAnError) {
  ASSERT_EQ(llvm::toString(writeSafetensors(in("w"), {{"a", counted(Type(DType::F32, {3}))}})), "");
  write("m.isth", "isthmus 1\nweights \"w\"\ngraph @g {\n  param %a : f32[2] = file \"a\"\n}\n");
  auto g = loadIsth(in("m.isth"));
  ASSERT_FALSE(bool(g));
  EXPECT_NE(llvm::toString(g.takeError()).find("'%a' is f32[2], but the weights file has f32[3]"),
            std::string::npos);
}

std::string onStdout(const Graph &g, SaveOptions options = {}) {
  testing::internal::CaptureStdout();
  std::string problem = llvm::toString(saveIsth(g, "-", options));
  std::string text = testing::internal::GetCapturedStdout();
  return problem.empty() ? text : problem;
}

TEST_F(Isth, OnStandardOutputLargeWeightsAreReferredTo) {
  Graph little = withWeights(/*huge=*/false);
  EXPECT_EQ(onStdout(little), graphText(little));
  Graph huge = withWeights(/*huge=*/true);
  EXPECT_EQ(
      onStdout(huge),
      "error: 1049605 bytes of weights are too many for standard output, which takes 1048576; "
      "name a file for them (option weights = FILE)");
  ASSERT_EQ(llvm::toString(saveIsth(huge, in("m.isth"))), "");
  std::string text = onStdout(loaded(in("m.isth")));
  EXPECT_NE(text.find("weights \"" + in("m.safetensors") + "\" digest \""), std::string::npos)
      << text;
  EXPECT_NE(text.find("  param %huge : u8[1048577] = file \"huge\"\n"), std::string::npos);
  write("again.isth", text);
  expectSameData(huge, loaded(in("again.isth"), Outside::Allowed));
  EXPECT_FALSE(bool(loadIsth(in("again.isth")))); // the path is absolute
  text = onStdout(huge, {.weightsPath = in("x.safetensors")});
  write("again.isth", text);
  expectSameData(huge, loaded(in("again.isth"), Outside::Allowed));
}

} // namespace
