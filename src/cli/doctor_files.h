// cli/doctor_files.h
//
// What `gezel doctor` finds in the files that a user writes by hand: config.json and the catalog. Reads the
// disk, nothing else.
#pragma once
#include "cli/doctor.h"
#include "service/install_settings.h"

namespace gezel::cli {

Findings check_config(const std::filesystem::path& home);
// Of every item that is not used: file, JSON pointer, value and what it must be.
Findings check_catalog(const std::filesystem::path& home, const service::InstallSettings& installs);

}  // namespace gezel::cli
