// service/service_parts.h
//
// The world of an InferenceService: what it would otherwise have to make, read or start itself. A test brings
// fakes.
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "capacity/launch.h"
#include "engine/admission.h"
#include "engine/engine.h"
#include "engine/gpu_survey.h"
#include "engine/neighbour_watch.h"
#include "engine/pressure_watch.h"
#include "models/store.h"
#include "service/install_parts.h"

namespace gezel::service {

struct ServiceParts {
  // What the rest refers to; declared first, so that it goes last.
  std::shared_ptr<void> keep_alive;
  boost::asio::any_io_executor loop;
  // For blocking work that is soon done; loading models waits for it, and so do most answers.
  boost::asio::any_io_executor pool;
  // For what takes minutes: hashing, copying, bundles, looking through folders. Nothing of it may hold up
  // what waits for `pool`.
  boost::asio::any_io_executor slow_pool;
  const Clock& clock;
  Entropy& entropy;
  // The engine of "llama-cpp:<id>"; starts nothing.
  std::function<std::unique_ptr<engine::Engine>(const std::string& model_id, models::ModelStore& store)>
      make_engine;
  // Who may load a model; the engines of make_engine() ask it. Null: nobody does (tests), and there is no
  // memory to tell of.
  std::shared_ptr<engine::Admission> admission;
  capacity::LaunchSettings launch;  // what is asked of every model, for plans of those that are not here
  std::shared_ptr<engine::PressureWatch> pressure;    // null: nobody looks
  std::shared_ptr<engine::NeighbourWatch> neighbour;  // null: good-neighbour mode is off
  std::shared_ptr<engine::GpuGate> gpu;               // null: nothing is told of GPUs
  std::function<engine::GpuSurvey()> survey_gpus;     // blocking; unset: nothing is told of devices
  // Ends engines of dead daemons; runs once, on the pool, before the first engine is asked for anything.
  std::function<void()> reap_orphans;
  std::shared_ptr<InstallParts> installs;  // never null
  // Ends the programs that threads of both pools wait for; called when the service begins to stop. Unset:
  // there are none.
  std::function<void()> stop_programs = {};
  // Waits until nothing runs on both pools and the threads of `installs` any more; called when the service
  // goes.
  std::function<void()> drain_pool;
};

}  // namespace gezel::service
