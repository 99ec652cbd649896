// worker/exit_codes.h
//
// How a worker ends by itself; the daemon's incident shows the number.
#pragma once

namespace gezel::worker {

inline constexpr int kExitDaemonGone = 0;  // nobody is left to work for, or a stop was asked for
inline constexpr int kExitStart = 1;       // hello, load frame or sandbox
inline constexpr int kExitLoad = 3;        // the model could not be loaded; the `failed` frame says why
inline constexpr int kExitBackend = 4;     // the compute backend failed
inline constexpr int kExitProtocol = 5;    // the daemon sent what cannot be read
inline constexpr int kExitOutboxFull = 6;  // the daemon stopped reading
inline constexpr int kExitIntake = 7;      // the model's chat template or tokenizer ran away (IntakeGuard)

}  // namespace gezel::worker
