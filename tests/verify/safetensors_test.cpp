#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/verify/folder.hpp"
#include "tests/verify/throws.hpp"
#include "verify/inputs.hpp"
#include "verify/safetensors.hpp"

namespace ringfence::verify {
namespace {

using tests::Folder;

std::string file_of(const std::string& header, const std::string& data) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return file + header + data;
}

void read(const std::string& bytes) { read_safetensors("f", bytes.data(), bytes.size()); }

// A file whose header is one tensor `a`, with the given fields, and 8 bytes of data.
std::string one_tensor(const std::string& fields) {
  return file_of("{\"a\":{" + fields + "}}", "12345678");
}

constexpr const char* kRight = R"("dtype":"BF16","shape":[2,2],"data_offsets":[0,8])";

TEST_CASE("a file by the format's description is read: dtype, shape, bytes, metadata, spaces") {
  const std::string header = R"({"__metadata__":{"eps":"1e-05","who":"é"},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
                             R"("a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
                             R"("none":{"dtype":"BF16","shape":[0,7],"data_offsets":[8,8]},)"
                             R"("scalar":{"dtype":"BF16","shape":[],"data_offsets":[8,10]}}   )";
  const std::string data("\x00\x3c\x00\xc0\x00\x00\x20\x40\x80\x3f", 10);
  const std::string bytes = file_of(header, data);
  Folder folder;
  tests::write_file(folder.file("t"), bytes);
  for (const Safetensors& file :
       {read_safetensors("f", bytes.data(), bytes.size()), read_safetensors(folder.file("t"))}) {
    REQUIRE(file.tensors.size() == 4);
    CHECK(file.tensors[0].first == "a");
    CHECK(file.find("a")->value(0) == 1);
    CHECK(file.find("a")->value(1) == -2);
    CHECK(file.find("b")->value(0) == 2.5);
    CHECK(file.find("none")->elements() == 0);
    CHECK(file.find("scalar")->value(0) == 1);
    CHECK(file.find("c") == nullptr);
    CHECK(file.metadata == Metadata{{"eps", "1e-05"}, {"who", "é"}});
  }
}

TEST_CASE("what is written is read back, and begins where other readers can map it") {
  Folder folder;
  Safetensors contents;
  contents.metadata = {{"eps", "1e-06"}};
  Tensor a(Dtype::bf16, {3, 8});
  for (std::size_t i = 0; i < a.elements(); ++i) a.bits()[i] = static_cast<std::uint16_t>(i * 977);
  Tensor b(Dtype::f32, {2});
  b.floats()[0] = 3.25f;
  contents.add("out", a);
  contents.add("wide \"quoted\"", b);
  contents.add("empty", Tensor(Dtype::f16, {0}));
  write_safetensors(folder.file("t"), contents);
  const Safetensors back = read_safetensors(folder.file("t"));
  CHECK(back.metadata == contents.metadata);
  CHECK(back.tensors.size() == 3);
  CHECK(back.find("out")->bytes == a.bytes);
  CHECK(back.find("out")->shape == a.shape);
  CHECK(back.find("wide \"quoted\"")->value(0) == 3.25);
  CHECK(folder.entries() == 1);
  const std::string bytes = tests::read_file(folder.file("t"));
  CHECK(static_cast<unsigned char>(bytes[0]) % 8 == 0);
  CHECK(bytes[8] == '{');
}

TEST_CASE("a truncated file, at whatever byte, is refused") {
  const std::string whole = one_tensor(kRight);
  read(whole);
  for (std::size_t n = 0; n < whole.size(); ++n) {
    CHECK_ERROR(read(whole.substr(0, n)), "f: ");
  }
  CHECK_ERROR(read(""), "truncated: 0 bytes", "8");
  CHECK_ERROR(read(whole.substr(0, 20)), "byte 0: header length", "12 bytes follow");
  CHECK_ERROR(read(whole.substr(0, whole.size() - 1)), "truncated", "'a'", "ends at byte");
}

TEST_CASE("a header length beyond the limit or the file is refused") {
  std::string bytes = one_tensor(kRight);
  bytes[4] = 1;
  CHECK_ERROR(read(bytes), "byte 0: header length", "over the limit of 100000000");
  CHECK_ERROR(read(std::string(8, '\xff')), "18446744073709551615");
}

TEST_CASE("JSON errors name the byte of the file") {
  CHECK_ERROR(read(file_of("{\"a\":?}", "")), "byte 13", "not valid JSON");
  CHECK_ERROR(read(file_of(" {}", "")), "byte 8", "begin with '{'");
  CHECK_ERROR(read(file_of("[]", "")), "byte 8", "begin with '{'");
  CHECK_ERROR(read(file_of("", "")), "byte 8");
  CHECK_ERROR(read(file_of("{} x", "")), "byte 11", "not valid JSON");
  CHECK_ERROR(read(file_of("{\"\xff\":1}", "")), "not valid JSON");
  CHECK_ERROR(read(file_of("{\"a\":[[[[]]]]}", "")), "nested deeper");
  CHECK_ERROR(read(file_of("{\"a\":1e999}", "")), "must be integers", "1e999");
}

TEST_CASE("a key that appears twice is refused") {
  CHECK_ERROR(
      read(file_of(std::string("{\"a\":{") + kRight + "},\"a\":{" + kRight + "}}", "12345678")),
      "'a' appears twice");
  CHECK_ERROR(read(one_tensor(std::string(kRight) + ",\"shape\":[4]")), "'shape' appears twice");
}

TEST_CASE("a tensor's fields are checked one by one, and the tensor is named") {
  CHECK_ERROR(read(file_of("{\"a\":7}", "")), "'a' is not an object");
  CHECK_ERROR(read(one_tensor(R"("shape":[4],"data_offsets":[0,8])")), "'a'", "no 'dtype'");
  CHECK_ERROR(read(one_tensor(R"("dtype":"BF16","data_offsets":[0,8])")), "'a'", "no 'shape'");
  CHECK_ERROR(read(one_tensor(R"("dtype":"BF16","shape":[4])")), "'a'", "no 'data_offsets'");
  CHECK_ERROR(read(one_tensor(std::string(kRight) + ",\"extra\":1")), "'a'",
              "unknown field 'extra'");
  CHECK_ERROR(read(one_tensor(R"("dtype":"C64","shape":[1],"data_offsets":[0,8])")), "'a'", "'C64'",
              "BF16, F16, F32, F64, F8_E4M3");
  CHECK_ERROR(read(one_tensor(R"("dtype":5,"shape":[1],"data_offsets":[0,8])")),
              "dtype is not a string");
  for (const char* shape : {"[-1]", "[1.5]", "[\"4\"]", "[18446744073709551615]", "[null]"}) {
    CHECK_ERROR(
        read(one_tensor(std::string(R"("dtype":"BF16","data_offsets":[0,8],"shape":)") + shape)),
        "'a'", "shape");
  }
  CHECK_ERROR(read(one_tensor(R"("dtype":"BF16","shape":4,"data_offsets":[0,8])")),
              "shape is not an array");
  CHECK_ERROR(
      read(one_tensor(R"("dtype":"BF16","shape":[4294967296,4294967296],"data_offsets":[0,8])")),
      "'a'", "[4294967296, 4294967296]", "overflows");
  for (const char* offsets : {"7", "[0]", "[0,8,9]", "[-8,0]", "[0,8.0]", "[\"0\",8]"}) {
    CHECK_ERROR(
        read(one_tensor(std::string(R"("dtype":"BF16","shape":[4],"data_offsets":)") + offsets)),
        "'a'", "data_offsets is not two integers");
  }
}

TEST_CASE("offsets that do not fit dtype and shape are refused, mis-typed data so too") {
  CHECK_ERROR(read(one_tensor(R"("dtype":"F32","shape":[2,2],"data_offsets":[0,8])")), "[0, 8]",
              "16 bytes", "fp32 [2, 2]");
  CHECK_ERROR(read(one_tensor(R"("dtype":"BF16","shape":[4],"data_offsets":[8,0])")), "[8, 0]",
              "8 bytes");
  CHECK_ERROR(
      read(one_tensor(R"("dtype":"BF16","shape":[4],"data_offsets":[18446744073709551608,0])")),
      "'a'", "do not hold");
}

TEST_CASE("the data is tiled exactly: overlap, hole, trailing and missing bytes are refused") {
  const auto two = [](const char* b, const char* a, std::size_t bytes) {
    return file_of(std::string(R"({"b":{"dtype":"BF16","shape":[2],"data_offsets":)") + b +
                       R"(},"a":{"dtype":"BF16","shape":[2],"data_offsets":)" + a + "}}",
                   std::string(bytes, 'x'));
  };
  read(two("[4,8]", "[0,4]", 8));
  read(two("[0,4]", "[4,8]", 8));
  CHECK_ERROR(read(two("[2,6]", "[0,4]", 6)), "'b' begins at data offset 2, inside tensor 'a'",
              "expected 4");
  CHECK_ERROR(read(two("[0,4]", "[0,4]", 4)), "inside tensor");
  CHECK_ERROR(read(two("[6,10]", "[0,4]", 10)), "data offsets 4 to 6 belong to no tensor", "'b'");
  CHECK_ERROR(read(two("[6,10]", "[2,6]", 10)), "data offsets 0 to 2");
  CHECK_ERROR(read(two("[4,8]", "[0,4]", 9)), "1 trailing bytes", "byte ");
  CHECK_ERROR(read(two("[4,8]", "[0,4]", 7)), "truncated", "'b'");
}

TEST_CASE("metadata is strings only") {
  CHECK_ERROR(read(file_of(R"({"__metadata__":7})", "")), "__metadata__ is not an object");
  CHECK_ERROR(read(file_of(R"({"__metadata__":{"eps":1e-5}})", "")), "'eps' is not a string");
}

TEST_CASE("a name with line breaks, or very long, still gives one line") {
  CHECK_ERROR(read(file_of("{\"a\\nb\":7}", "")), "'a\\x0ab'");
  const std::string message =
      tests::error_of([] { read(file_of("{\"" + std::string(100'000, 'n') + "\":7}", "")); });
  CHECK(message.size() < 200);
}

TEST_CASE("files that cannot be read are named, with the reason") {
  Folder folder;
  CHECK_ERROR(read_safetensors(folder.file("absent")), "absent", "cannot be opened",
              "No such file");
  CHECK_ERROR(read_safetensors(folder.file("")), "not a regular file");
}

TEST_CASE("a failed write leaves neither a part nor a temporary, and the old file as it was") {
  Folder folder;
  const std::string path = folder.file("t");
  Safetensors contents;
  contents.add("a", Tensor(Dtype::bf16, {2}));
  write_safetensors(path, contents);
  const std::string before = tests::read_file(path);

  Safetensors twice = contents;
  twice.add("a", Tensor(Dtype::bf16, {1}));
  CHECK_ERROR(write_safetensors(path, twice), "two tensors are named 'a'");
  Safetensors odd = contents;
  odd.tensors[0].second.shape = {3};
  CHECK_ERROR(write_safetensors(path, odd), "'a' has 4 bytes", "takes 6");
  Safetensors reserved;
  reserved.add("__metadata__", Tensor(Dtype::bf16, {1}));
  CHECK_ERROR(write_safetensors(path, reserved), "__metadata__");
  Safetensors not_utf8;
  not_utf8.add("\xff", Tensor(Dtype::bf16, {1}));
  CHECK_ERROR(write_safetensors(path, not_utf8), "not UTF-8");
  CHECK(tests::read_file(path) == before);
  CHECK(folder.entries() == 1);

  // The rename itself fails where the name is a folder.
  ::mkdir(folder.file("folder").c_str(), 0777);
  CHECK_ERROR(write_safetensors(folder.file("folder"), contents), "folder", "cannot be replaced");
  CHECK(folder.entries() == 2);
  CHECK_ERROR(write_safetensors(folder.file("no/such"), contents), "cannot be created");
}

TEST_CASE("of the fuzzer's corpus the two well-formed files are read, all others refused") {
  int accepted = 0, refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/fuzz/corpus/safetensors")) {
    const std::string name = entry.path().filename().string();
    CAPTURE(name);
    if (name == "two_tensors" || name == "scalar_and_empty") {
      CHECK(read_safetensors(entry.path().string()).tensors.size() == 2);
      ++accepted;
    } else {
      CHECK_ERROR(read_safetensors(entry.path().string()), name.c_str());
      ++refused;
    }
  }
  CHECK(accepted == 2);
  CHECK(refused > 0);
}

// --- the operator's inputs -----------------------------------------------------------------------

Safetensors operator_file(const char* x_name = "attn") {
  Safetensors file;
  file.metadata = {{"eps", "1e-05"}};
  file.add(x_name, Tensor(Dtype::bf16, {4, 16}));
  file.add("weight", Tensor(Dtype::bf16, {8, 16}));
  file.add("residual", Tensor(Dtype::bf16, {4, 8}));
  file.add("gamma", Tensor(Dtype::bf16, {8}));
  return file;
}

void replace(Safetensors& file, const std::string& name, Tensor tensor) {
  for (auto& entry : file.tensors) {
    if (entry.first == name) entry.second = std::move(tensor);
  }
}

TEST_CASE("inputs take bias for beta, other names, an fp32 gamma, and [1, H]") {
  Folder folder;
  Safetensors file = operator_file();
  Tensor bias(Dtype::bf16, {1, 8});
  bias.bits()[3] = 0x3f80;
  file.add("bias", bias);
  Tensor gamma(Dtype::f32, {1, 8});
  gamma.floats()[0] = 1.5f;
  gamma.floats()[7] = 1.001f;  // between two bf16 numbers
  std::string other = "model.layers.0.input_layernorm.weight";
  file.add(other, gamma);
  write_safetensors(folder.file("t"), file);
  const InputNames names = parse_input_names("gamma=" + other, "--map");
  const LoadedInputs as_they_are = load_inputs(folder.file("t"), names);
  CHECK(as_they_are.inputs.gamma.dtype == Dtype::f32);
  CHECK(as_they_are.inputs.gamma.shape == Shape{8});
  CHECK(as_they_are.inputs.gamma.floats()[7] == 1.001f);
  REQUIRE(as_they_are.notes.size() == 2);
  CHECK(as_they_are.notes[1].find("F32 beside bf16 data") != std::string::npos);
  CHECK(as_they_are.inputs.beta.dtype == Dtype::bf16);
  // For the CUDA kernels both rows are of one dtype, without a bit lost.
  const LoadedInputs loaded = load_inputs(folder.file("t"), names, true);
  CHECK(loaded.inputs.beta.dtype == Dtype::f32);
  CHECK(loaded.inputs.beta.shape == Shape{8});
  CHECK(loaded.inputs.beta.value(3) == 1);
  CHECK(loaded.inputs.gamma.shape == Shape{8});
  CHECK(loaded.inputs.gamma.floats()[0] == 1.5f);
  CHECK(loaded.inputs.gamma.floats()[7] == 1.001f);
  REQUIRE(loaded.notes.size() == 2);
  CHECK(loaded.notes[0].find("not used: 'gamma'") != std::string::npos);
  CHECK(loaded.notes[1].find("F32 beside bf16 data") != std::string::npos);

  CHECK_ERROR(parse_input_names("gamma=y,gamma=x", "--map"), "--map gamma=x", "a name already");
  CHECK_ERROR(parse_input_names("delta=x", "--map"), "NAME=TENSOR");
  CHECK_ERROR(parse_input_names("beta=", "--map"), "NAME=TENSOR");
  CHECK_ERROR(load_inputs(folder.file("t"), {{"weight", "nothing"}}), "no tensor 'nothing'");
  CHECK_ERROR(load_inputs(folder.file("t"), {{"weight", "residual"}}), "named twice");
  file.add("beta", Tensor(Dtype::bf16, {8}));
  write_safetensors(folder.file("t"), file);
  CHECK_ERROR(load_inputs(folder.file("t")), "'beta' and its alias 'bias'");
}

TEST_CASE("inputs load by either name of x, with beta where there is one, beside other tensors") {
  Folder folder;
  for (const char* x_name : {"attn", "x"}) {
    Safetensors file = operator_file(x_name);
    file.add("beta", Tensor(Dtype::bf16, {8}));
    file.add("other", Tensor(Dtype::f32, {3}));
    write_safetensors(folder.file("t"), file);
    const LoadedInputs loaded = load_inputs(folder.file("t"));
    REQUIRE(loaded.notes.size() == 1);
    CHECK(loaded.notes[0].find("not used: 'other'") != std::string::npos);
    CHECK(loaded.inputs.x.shape == Shape{4, 16});
    CHECK(loaded.inputs.has_beta());
    CHECK(loaded.eps == 1e-5f);
    Problem p;
    adopt(p, loaded);
    CHECK(p.tokens == 4);
    CHECK(p.inner == 16);
    CHECK(p.hidden == 8);
    CHECK(p.has_beta);
    CHECK(p.eps == 1e-5f);
    p.eps = 0.5f;
    adopt(p, loaded, true);
    CHECK(p.eps == 0.5f);
  }
}

TEST_CASE("inputs that do not fit together are refused by file and tensor") {
  Folder folder;
  const std::string path = folder.file("t");
  const auto refused = [&](const Safetensors& file) {
    write_safetensors(path, file);
    load_inputs(path);
  };
  Safetensors file = operator_file("y");
  CHECK_ERROR(refused(file), "no tensor 'attn'", "attn (or x)");
  file = operator_file();
  file.add("x", Tensor(Dtype::bf16, {4, 16}));
  CHECK_ERROR(refused(file), "both 'attn' and its alias 'x'");
  for (const char* name : {"weight", "residual", "gamma"}) {
    file = operator_file();
    for (auto& entry : file.tensors) entry.first = entry.first == name ? "gone" : entry.first;
    CHECK_ERROR(refused(file), "no tensor", name);
    file = operator_file();
    replace(file, name, Tensor(Dtype::f16, file.find(name)->shape));
    CHECK_ERROR(refused(file), name, "fp16", "bf16", "use one dtype");
  }
  file = operator_file();
  replace(file, "attn", Tensor(Dtype::bf16, {64}));
  CHECK_ERROR(refused(file), "'attn' has shape [64]", "[tokens, inner]");
  file = operator_file();
  replace(file, "weight", Tensor(Dtype::bf16, {128}));
  CHECK_ERROR(refused(file), "'weight' has shape [128]", "[hidden, inner]");
  file = operator_file();
  replace(file, "weight", Tensor(Dtype::bf16, {8, 12}));
  CHECK_ERROR(refused(file), "'weight' has shape [8, 12]", "[8, 16]");
  file = operator_file();
  replace(file, "weight", Tensor(Dtype::bf16, {16, 8}));  // the other way round
  CHECK_ERROR(refused(file), "'weight' has shape [16, 8]", "expected [hidden, inner] = [8, 16]");
  file = operator_file();
  replace(file, "residual", Tensor(Dtype::bf16, {8, 4}));
  CHECK_ERROR(refused(file), "'residual' has shape [8, 4]", "[4, 8]");
  file = operator_file();
  replace(file, "gamma", Tensor(Dtype::bf16, {16}));
  CHECK_ERROR(refused(file), "'gamma' has shape [16]", "[8]");
  file = operator_file();
  file.add("beta", Tensor(Dtype::bf16, {1}));
  CHECK_ERROR(refused(file), "'beta' has shape [1]", "[8]");
  file = operator_file();
  for (auto& entry : file.tensors) entry.second = Tensor(Dtype::f64, entry.second.shape);
  CHECK_ERROR(refused(file), "'attn' is F64", "BF16, F16 or F32");
  // All in fp32 is right, but not for the CUDA kernels.
  for (auto& entry : file.tensors) entry.second = Tensor(Dtype::f32, entry.second.shape);
  write_safetensors(path, file);
  CHECK(load_inputs(path).dtype == Dtype::f32);
  CHECK_ERROR(load_inputs(path, {}, true), "'attn' is F32", "the kernels take BF16 or F16");
  replace(file, "gamma", Tensor(Dtype::bf16, {8}));
  CHECK_ERROR(refused(file), "'gamma' is bf16 and 'attn' is fp32", "use one dtype");
  for (const char* eps : {"", "small", "1e-5 ", "-1", "nan", "inf"}) {
    file = operator_file();
    file.metadata["eps"] = eps;
    CHECK_ERROR(refused(file), "__metadata__.eps", "decimal number");
  }
}

}  // namespace
}  // namespace ringfence::verify
