//! `strftime` as Python has it in the C locale, on a time that the caller gives: a template that prints the date renders
//! the same in a test as in service.

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
];

/// A time on a wall clock; no zone.
struct Civil {
    year: i64,
    month: i64, // 1..12
    day: i64,   // 1..31
    hour: i64,
    minute: i64,
    second: i64,
    weekday: i64,  // 0 = Sunday
    year_day: i64, // 1..366
}

/// Days since 1970-01-01 to a date of the proleptic Gregorian calendar, counted in years that begin in March: leap days
/// then fall at the end of a year and an era of 400 years always has 146,097 days.
fn civil(local_seconds: i64) -> Civil {
    let days = local_seconds.div_euclid(86_400);
    let time = local_seconds.rem_euclid(86_400);
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][(month - 1) as usize];
    Civil {
        year,
        month,
        day,
        hour: time / 3_600,
        minute: time / 60 % 60,
        second: time % 60,
        weekday: (days + 4).rem_euclid(7),
        year_day: before + day + i64::from(leap && month > 2),
    }
}

/// ISO 8601 year and week: weeks begin on Monday and belong to the year that holds their Thursday.
fn iso_week(t: &Civil) -> (i64, i64) {
    let weekday = (t.weekday + 6) % 7 + 1;
    let week = (t.year_day - weekday + 10) / 7;
    let weeks_in = |year: i64| {
        let last_day = |y: i64| (y + y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400)).rem_euclid(7);
        if last_day(year) == 4 || last_day(year - 1) == 3 { 53 } else { 52 }
    };
    if week < 1 {
        (t.year - 1, weeks_in(t.year - 1))
    } else if week > weeks_in(t.year) {
        (t.year + 1, 1)
    } else {
        (t.year, week)
    }
}

/// Unknown directives stay as they are, as glibc leaves them.
pub fn strftime(format: &str, local_seconds: i64) -> String {
    let t = civil(local_seconds);
    let mut out = String::with_capacity(format.len() + 16);
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let Some(mut directive) = chars.next() else {
            out.push('%');
            break;
        };
        // glibc's flags: no padding, blanks, zeros.
        let mut padding = None;
        if let '-' | '_' | '0' = directive {
            padding = Some(directive);
            match chars.next() {
                Some(next) => directive = next,
                None => {
                    out.push('%');
                    out.push(directive);
                    break;
                }
            }
        }
        let mut number = |value: i64, width: usize, default: char| {
            match padding.unwrap_or(default) {
                '-' => out.push_str(&value.to_string()),
                '_' => out.push_str(&format!("{value:width$}")),
                _ => out.push_str(&format!("{value:0width$}")),
            }
        };
        let twelve = (t.hour + 11) % 12 + 1;
        let half = if t.hour < 12 { "AM" } else { "PM" };
        match directive {
            'Y' => number(t.year, 1, '-'),
            'C' => number(t.year.div_euclid(100), 2, '0'),
            'y' => number(t.year.rem_euclid(100), 2, '0'),
            'm' => number(t.month, 2, '0'),
            'd' => number(t.day, 2, '0'),
            'e' => number(t.day, 2, '_'),
            'H' => number(t.hour, 2, '0'),
            'k' => number(t.hour, 2, '_'),
            'I' => number(twelve, 2, '0'),
            'l' => number(twelve, 2, '_'),
            'M' => number(t.minute, 2, '0'),
            'S' => number(t.second, 2, '0'),
            'j' => number(t.year_day, 3, '0'),
            'w' => number(t.weekday, 1, '0'),
            'u' => number((t.weekday + 6) % 7 + 1, 1, '0'),
            'U' => number((t.year_day + 6 - t.weekday) / 7, 2, '0'),
            'W' => number((t.year_day + 6 - (t.weekday + 6) % 7) / 7, 2, '0'),
            'V' => number(iso_week(&t).1, 2, '0'),
            'G' => number(iso_week(&t).0, 1, '-'),
            'g' => number(iso_week(&t).0.rem_euclid(100), 2, '0'),
            's' => number(local_seconds, 1, '-'),
            'f' => number(0, 6, '0'),
            'A' => out.push_str(DAYS[t.weekday as usize]),
            'a' => out.push_str(&DAYS[t.weekday as usize][..3]),
            'B' => out.push_str(MONTHS[(t.month - 1) as usize]),
            'b' | 'h' => out.push_str(&MONTHS[(t.month - 1) as usize][..3]),
            'p' => out.push_str(half),
            'P' => out.push_str(&half.to_lowercase()),
            'F' => out.push_str(&strftime("%Y-%m-%d", local_seconds)),
            'T' | 'X' => out.push_str(&strftime("%H:%M:%S", local_seconds)),
            'R' => out.push_str(&strftime("%H:%M", local_seconds)),
            'r' => out.push_str(&strftime("%I:%M:%S %p", local_seconds)),
            'D' | 'x' => out.push_str(&strftime("%m/%d/%y", local_seconds)),
            'c' => out.push_str(&strftime("%a %b %e %H:%M:%S %Y", local_seconds)),
            'n' => out.push('\n'),
            't' => out.push('\t'),
            '%' => out.push('%'),
            'Z' | 'z' => {} // no zone is known, as for Python's naive datetime
            other => {
                out.push('%');
                if let Some(padding) = padding {
                    out.push(padding);
                }
                out.push(other);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::strftime;

    const MOMENT: i64 = 1_700_000_000; // 2023-11-14 22:13:20, a Tuesday

    #[test]
    fn prints_what_chat_templates_ask_for() {
        assert_eq!(strftime("%d %b %Y", MOMENT), "14 Nov 2023");
        assert_eq!(strftime("%B %d, %Y", MOMENT), "November 14, 2023");
        assert_eq!(strftime("%Y-%m-%dT%H:%M:%S %A %-I%p 100%%", MOMENT), "2023-11-14T22:13:20 Tuesday 10PM 100%");
    }

    #[test]
    fn counts_days_and_weeks_like_iso_8601() {
        assert_eq!(strftime("%j %U %W %V %G", 1_609_459_200), "001 00 00 53 2020"); // 2021-01-01
        assert_eq!(strftime("%F %j", 951_782_400), "2000-02-29 060");
        assert_eq!(strftime("%F", -1), "1969-12-31");
    }

    #[test]
    fn leaves_unknown_directives_alone() {
        assert_eq!(strftime("%Q %", MOMENT), "%Q %");
    }
}
