// Images that TensorFlow 2.21 made, and the CRC-32 and first values of the pixels that it decoded
// them to (the rows image/* of its golden values).

#include "common/images/decode_image.h"

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "zlib.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kQuality75[] =
    "/9j/4AAQSkZJRgABAQEBLAEsAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwgJC4nICIsIxwc"
    "KDcpLDAxNDQ0Hyc5PTgyPC4zNDL/2wBDAQkJCQwLDBgNDRgyIRwhMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIy"
    "MjIyMjIyMjIyMjIyMjIyMjIyMjL/wAARCAAQABgDASIAAhEBAxEB/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcI"
    "CQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRol"
    "JicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ip"
    "qrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/8QAHwEAAwEBAQEBAQEBAQAAAAAA"
    "AAECAwQFBgcICQoL/8QAtREAAgECBAQDBAcFBAQAAQJ3AAECAxEEBSExBhJBUQdhcRMiMoEIFEKRobHBCSMzUvAVYnLR"
    "ChYkNOEl8RcYGRomJygpKjU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6goOEhYaHiImKkpOUlZaX"
    "mJmaoqOkpaanqKmqsrO0tba3uLm6wsPExcbHyMnK0tPU1dbX2Nna4uPk5ebn6Onq8vP09fb3+Pn6/9oADAMBAAIRAxEA"
    "PwCO4uItQe3j8+4uFmdpF2h1lIJSEj5QcuqqH4XBVsnoKtW8OpQ35ubhvtFmEAe3dY9rbicZAOOQAzff4Az0+WpYwTKF"
    "ku5Z/s8kvlyRGSV3kfb+8HQFRjIJ4OFfqTgWbi4toLeO0gMim4WN42FwqyM5ZRsQLgAIuScEd87d1S6V24Stbr2W3pbr"
    "2XmyrVWoOKsunlsrenpfXTR3H2CRSWMHmWJgukhVnEpyzSKMESn7ykkuik9AQRzyCqs9ol5JFagRyFl2Jb3LbJlGMlSw"
    "YADBXJA4wDhSx3FZ1asb2ld77OKt/wCBNPXe/e+iK56dGTtqnt7yWi0W61+7y6H/2Q==";
constexpr char kQuality90[] =
    "/9j/4AAQSkZJRgABAQEBLAEsAAD/2wBDAAMCAgMCAgMDAwMEAwMEBQgFBQQEBQoHBwYIDAoMDAsKCwsNDhIQDQ4RDgsL"
    "EBYQERMUFRUVDA8XGBYUGBIUFRT/2wBDAQMEBAUEBQkFBQkUDQsNFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU"
    "FBQUFBQUFBQUFBQUFBQUFBQUFBT/wAARCAAQABgDAREAAhEBAxEB/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcI"
    "CQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRol"
    "JicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ip"
    "qrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/8QAHwEAAwEBAQEBAQEBAQAAAAAA"
    "AAECAwQFBgcICQoL/8QAtREAAgECBAQDBAcFBAQAAQJ3AAECAxEEBSExBhJBUQdhcRMiMoEIFEKRobHBCSMzUvAVYnLR"
    "ChYkNOEl8RcYGRomJygpKjU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6goOEhYaHiImKkpOUlZaX"
    "mJmaoqOkpaanqKmqsrO0tba3uLm6wsPExcbHyMnK0tPU1dbX2Nna4uPk5ebn6Onq8vP09fb3+Pn6/9oADAMBAAIRAxEA"
    "PwCpq+s2njC40q1Oo6jrEN/PJdQ+Ws8N6VaSCwZR5anNxHHGs+REEeKXLABY681VoUan1ypFUKNaNmuZzi5un7WEql2p"
    "ThdyjVukrQpuTnKbiepgcTiMro4KWDp2pRXLJJVIxadL2kYynOUqkZXqwUZNwpOsoTjVjb3NvR9M8VaZ4mfVtTk/tjQF"
    "gRJ9InhtjFKJXYqGVH2DcirLKf3xCqhYkIPJwzDC08fSjzRlRk3P+HGUqzu3eN4Q0cqiqQhdwfZza9pLwMuxkKFGvXwM"
    "3SpwatOKlCMKSvJOldc8ZOcowo0pJQrNzjOtGrKdn+ErW0u/Delm48PvpWtwWMclwt++6Sa6iUIyXzg+bGzu80MRYjAd"
    "XUBgZE+geKrOdWnRgva1XNVIwtTaioKcPYxatUTk6cpTp1FZR5lZNwemMy2eAzOhgo4dRjzzcNp8sHUg40aXvqHK4zhz"
    "xcZxhGok5xdWbOf8K6VexJHc61e6gdKurwWlzZG5vLi4upzEBdoBsV41Kb0ZhtYCGfPmFgia4qWHwOLjSpU40q04cyqq"
    "D5Ze0nLlnze0dqqXJ7JSnKVqq5rqamvVyPAzdD+xXTp1OW6lKPLTVCGtPlfNUjTerlJShFw55KpBOrSTexq+r6XpWl2m"
    "jae11E+qR2txaSR6nHHdyzPNEht4FhwqrBDvdipTksHMXm1jhqVDKE8bmahCXvpyqpzU6c41v3i96pUac5qPvSjzp86l"
    "Jq8eLAZdmNbF0cTL94oKoqajCa5uWUa3tn77UqU1KEoKfs6spOLhSjHmZmat4fg8SXNlo4FtetLH9ng0jWpDBqEahCXi"
    "eVZowihWi3SIPl2K+yNppDJ51bMI4eeLw1StKnQsoRa5nRjNOnyTjo4SlCooSqNxblz1INzpqnM9aeJwWLWJzSiowhKn"
    "HnqzcrOlaEV7ONRpzdaaTiq1Wm1Tk1eUrtf/2Q==";
constexpr char kRgbPng[] =
    "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAHUlEQVQImWNOPve+p/6/0bWzzLdazkjcjP577T0Ads8M"
    "Pj3xPW0AAAAASUVORK5CYII=";
constexpr char kGray16Png[] =
    "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACEAAAAADoj+WFAAAAFklEQVQImWO2UNnCw+fHxBqVNofjIwAWPQPY6PuvMAAA"
    "AABJRU5ErkJggg==";

std::string Bytes(const char* base64) {
  std::string bytes;
  EXPECT_TRUE(absl::Base64Unescape(base64, &bytes));
  return bytes;
}

Tensor Decoded(const std::string& bytes, const DecodeOptions& options = {}) {
  auto pixels = DecodeImage(bytes, options);
  EXPECT_TRUE(pixels.ok()) << pixels.status();
  return pixels.ok() ? *std::move(pixels) : Tensor();
}

uint32_t Crc32(const Tensor& pixels) {
  return static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(pixels.raw()),
                                     static_cast<uInt>(pixels.num_bytes())));
}

TEST(DecodeJpeg, GivesTensorFlowsPixels) {
  const std::string q75 = Bytes(kQuality75);
  const Tensor pixels = Decoded(q75);
  EXPECT_EQ(pixels.shape(), Shape({16, 24, 3}));
  EXPECT_EQ(Crc32(pixels), 2080523726u);
  EXPECT_THAT(pixels.span<uint8_t>().subspan(0, 4), ElementsAre(105, 237, 127, 151));
  EXPECT_EQ(Crc32(Decoded(q75, {.channels = 3})), 2080523726u);
  EXPECT_EQ(Crc32(Decoded(q75, {.accurate_dct = true})), 3031824865u);
  EXPECT_EQ(Crc32(Decoded(q75, {.channels = 1})), 3479418243u);
  const std::string q90 = Bytes(kQuality90);
  EXPECT_EQ(Crc32(Decoded(q90)), 2131739278u);
  EXPECT_EQ(Crc32(Decoded(q90, {.accurate_dct = true})), 4185828685u);
  EXPECT_EQ(Crc32(Decoded(q90, {.channels = 1})), 805592883u);
}

TEST(DecodeJpeg, BytesThatAreMissingAreAnErrorAndFurtherOnesAreNot) {
  const std::string whole = Bytes(kQuality75);
  for (size_t size = 4; size < whole.size(); ++size) {
    EXPECT_FALSE(DecodeImage(whole.substr(0, size), {}).ok()) << size;
  }
  EXPECT_THAT(DecodeImage(whole.substr(0, whole.size() - 1), {}).status().message(),
              HasSubstr("the JPEG image is damaged"));
  EXPECT_EQ(Crc32(Decoded(whole + "more")), 2080523726u);
  EXPECT_THAT(DecodeImage(whole, {.channels = 4}).status().message(),
              HasSubstr("1 or 3 channels, not 4"));
}

TEST(DecodePng, GivesTensorFlowsPixels) {
  const Tensor colors = Decoded(Bytes(kRgbPng));
  EXPECT_EQ(colors.shape(), Shape({2, 3, 3}));
  EXPECT_THAT(colors.span<uint8_t>(), ElementsAre(99, 206, 239, 189, 230, 118, 144, 73, 8, 11, 235,
                                                  67, 124, 193, 183, 131, 91, 78));
  EXPECT_THAT(Decoded(Bytes(kRgbPng), {.channels = 1}).span<uint8_t>(),
              ElementsAre(177, 204, 86, 148, 171, 101));
  const Tensor alpha = Decoded(Bytes(kRgbPng), {.channels = 4});
  EXPECT_THAT(alpha.span<uint8_t>().subspan(0, 5), ElementsAre(99, 206, 239, 255, 189));
  EXPECT_THAT(Decoded(Bytes(kGray16Png)).span<uint8_t>(), ElementsAre(56, 208, 118, 61, 54, 126));
  EXPECT_THAT(Decoded(Bytes(kGray16Png), {.channels = 3}).span<uint8_t>().subspan(0, 4),
              ElementsAre(56, 56, 56, 208));
}

TEST(DecodePng, EveryFlippedBitIsAnErrorOrChangesNothing) {
  const std::string whole = Bytes(kRgbPng);
  const uint32_t crc = Crc32(Decoded(whole));
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const auto pixels = DecodeImage(damaged, {});
    EXPECT_TRUE(!pixels.ok() || Crc32(*pixels) == crc) << bit;
  }
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(DecodeImage(whole.substr(0, size), {}).ok()) << size;
  }
}

TEST(DecodeImage, OtherKindsAreNamed) {
  const auto error = [](const std::string& bytes) {
    return std::string(DecodeImage(bytes, {}).status().message());
  };
  EXPECT_THAT(error("GIF89a..."), HasSubstr("GIF"));
  EXPECT_THAT(error("BM......"), HasSubstr("BMP"));
  EXPECT_THAT(error("some text"), HasSubstr("no image"));
  EXPECT_THAT(error(""), HasSubstr("no image"));
}

// An image of 65,280 x 65,280 pixels would take 12.8 GB.
TEST(DecodeImage, SizesAreCheckedBeforeMemoryIsTaken) {
  std::string jpeg = Bytes(kQuality75);
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  for (size_t i = 0; i < 4; ++i) jpeg[frame + 5 + i] = i % 2 == 0 ? '\xff' : '\0';
  EXPECT_TRUE(absl::IsResourceExhausted(DecodeImage(jpeg, {}).status()));
}

}  // namespace
}  // namespace cohort
