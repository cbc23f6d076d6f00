#include "ps_server/table/row_stripe.h"

namespace cohort {

std::byte* RowStripe::Search(const KeyAt& key, MissingRow missing) {
  uint32_t row = Find(key);
  if (row == RowIndex::kNone) {
    if (missing == MissingRow::kSkip) return nullptr;
    row = Create(key);
  }
  return slabs_.At(row);
}

uint32_t RowStripe::Create(const KeyAt& key) {
  if (index_.full()) {
    index_.Grow([this](uint32_t row) { return HashOf(RowLayout::Header(slabs_.At(row)).key); },
                [this](uint32_t row) { PrefetchLine(slabs_.At(row)); });
  }
  const uint32_t row = slabs_.Allocate();
  layout_.Fill(key.key, slabs_.At(row));
  index_.Insert(key.hash, row);
  return row;
}

bool RowStripe::Erase(const KeyAt& key) {
  const uint32_t row = Find(key);
  if (row == RowIndex::kNone) return false;
  index_.Erase(key.hash, row);
  RowLayout::Header(slabs_.At(row)).uses = 0;
  slabs_.Free(row);
  return true;
}

}  // namespace cohort
