// Every function of the runtime that is not there: a program finds it, and is told.

#include "emulator/exec/client/connection.hpp"

// What it takes does not matter: nothing of it is looked at.
#define RF_REFUSED(NAME) \
  RF_API ringfence::exec::client::Error NAME() { return ringfence::exec::client::refuse(#NAME); }
#include "emulator/exec/client/refused.inc"
#if RF_CUDART < 13
#include "emulator/exec/client/refused12.inc"
#endif
