//! Events folded into what people look at.
//!
//! A [`Projection`] is a value with an `apply` that takes the next event of one session. It can be
//! saved at any `seq`, continued from there, or deleted and folded anew: the result is the same.
//! What an event says is read as it stands; what cannot be read is passed over.
//!
//! Not here: files, clocks, randomness, printing, where events come from (`journal`), and secrets
//! in text, which `redact` takes out before a text leaves the machine.

mod projection; // what all projections have in common
mod facts; // what a list of sessions shows of one
mod turn_machine; // when a turn is open, and how it ended
mod agent_habits; // what single agents do differently, as data
mod event_ref; // a reference to an event, as evidence
mod turn; // from a prompt to the end of its answer
mod turns; // a session as turns
mod turn_stream; // the turns of a log that is read once
mod hot; // the newest part of a session
pub mod status; // what a session is doing, and why we think so
mod text; // a session as text
pub mod document; // a session as Markdown, HTML or plain text
mod tool_lines; // runs of calls in a few lines
mod chunk; // lines in chunks of limited size
mod problem; // what went wrong, in one line
mod quality; // how the work went
pub mod digest; // what is worth keeping of an epoch
mod chronicle; // the epochs of a session, each with its digest
mod work_span; // when somebody worked in a session, and what was done
mod activity; // work on one project, across sessions
mod tool; // what a call of any agent's tool does, and to what
mod command; // what a command line runs
mod ending; // how a session stands at the end of its log
mod epoch; // stretches between starts, compactions, clears and silences
mod title; // what a session is called
mod usage; // what a session used
mod reported_usage; // what the agent says that it cost
mod quarter_hour; // the times that sums are kept by
mod tokens; // tokens of requests, and how sure a sum is
mod risk; // how much depends on an answer
mod price; // what models cost
mod price_list; // prices as a file has them
mod price_import; // prices in the forms of other projects
mod model_name; // what names of models tell
mod spend; // tokens and money of many sessions, grouped
mod budget; // how much may be spent, and how much is
mod day; // days, weeks and months
mod redacted; // events without secrets
mod excerpt; // parts of text that may be shown
mod torn; // records that may still be told whole
mod ring_buffer; // the last few of something
mod id_hash; // stand-ins for ids that are only compared

pub use activity::{Activity, ActivityKind, Level, ProjectSpan, activities};
pub use budget::{BudgetAccount, BudgetScope, BudgetUse, Budgets};
pub use chronicle::{Chapter, Chronicle};
pub use day::Day;
pub use digest::{Digest, DigestFact, FactOrigin, Naming};
pub use ending::Ending;
pub use epoch::{Epoch, EpochEnd, Epochs};
pub use event_ref::EventRef;
pub use facts::{ActivityCounts, Facts, SessionProfile, UnknownCount};
pub use hot::{EventPreview, HOT_EVENTS_SEEN, Hot, HotTurn, SpokenText};
pub use price::{AppliedPrice, PriceChange, PriceSource, PriceTable, PriceUpdate, TableCost};
pub use price_import::{ImportedPrices, PriceForm};
pub use price_list::{BadPrices, Price, PriceAbove, PriceList, Terms};
pub use projection::Projection;
pub use quality::{Quality, SessionFault};
pub use quarter_hour::QuarterHour;
pub use redacted::{Redact, redacted};
pub use risk::Risk;
pub use spend::{DayOf, Grouping, Money, MoneyParts, Spending, SpendingFilter, Spent, SpentRow};
pub use text::{CHUNK_CHARS_MAX, CallStyle, SessionText};
pub use title::TitleOrigin;
pub use tokens::{Basis, TokenTotals};
pub use tool::{Object, ToolUse};
pub use turn::{Approval, ToolCount, Turn};
pub use turn_machine::{
    TurnChange, TurnEnd, TurnMachine, TurnOutcome, TurnState, TurnStep, TurnStop,
};
pub use turn_stream::TurnStream;
pub use turns::Turns;
pub use usage::{CONTEXT_STEPS, SessionUsage, UsageKey, UsageRow, UsageTotals};
pub use work_span::{PAUSE_MILLIS, WorkSpan};
