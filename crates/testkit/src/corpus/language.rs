//! Words by how often they are used, and prose made of them.

use super::project::Project;
use super::random::Random;

/// The words of a corpus, most used first.
pub(super) struct Language {
    latin: Vec<Box<str>>,
}

/// What a session is talked in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Script {
    Latin,
    Cyrillic,
    Chinese,
}

/// Distinct words in latin script; one less than a power of two, so that every rank is used.
const WORDS: usize = (1 << 15) - 1;

/// What people and models say most when they talk about programs.
const FREQUENT: &str = "the to a is and in of it that this for with we on be not file test as are \
    function error should if can code value from use by now when line return but will call type \
    add which have so an there one first run name check need path read let list at all change \
    has only before also these into string no does build key new where event was case same data \
    server request token cache index config update remove fix module session parser handler \
    after because then each both field struct result empty table row column query thread lock \
    queue batch write commit branch merge review release version option default missing";

const ONSETS: &[&str] = &[
    "b", "br", "c", "ch", "cl", "d", "dr", "f", "fl", "g", "gr", "h", "j", "k", "l", "m", "n", "p",
    "pl", "pr", "qu", "r", "s", "sc", "sh", "sl", "sp", "st", "t", "th", "tr", "v", "w", "z",
];
const VOWELS: &[&str] = &["a", "e", "i", "o", "u", "ai", "ea", "ou", "io"];
const CODAS: &[&str] = &["", "", "", "n", "r", "s", "l", "t", "nd", "ck", "m", "x", "st"];

const CYRILLIC: &[&str] = &[
    "и",
    "в",
    "не",
    "на",
    "что",
    "файл",
    "ошибка",
    "это",
    "с",
    "для",
    "как",
    "тест",
    "функция",
    "нужно",
    "поиск",
    "строка",
    "если",
    "запрос",
    "сервер",
    "код",
    "значение",
    "проверить",
    "исправить",
    "после",
    "данные",
    "таблица",
    "ключ",
    "список",
    "журнал",
    "сессия",
    "событие",
    "потом",
    "только",
    "всегда",
    "пустой",
    "новый",
    "старый",
    "чтение",
    "запись",
    "индекс",
    "память",
    "время",
    "путь",
    "папка",
    "ветка",
    "сборка",
    "версия",
    "настройка",
    "пользователь",
    "сообщение",
    "ответ",
    "вопрос",
    "модель",
    "порядок",
    "номер",
    "размер",
    "причина",
    "пример",
    "работает",
    "падает",
    "добавить",
    "удалить",
    "заменить",
];

const CHINESE: &[&str] = &[
    "的",
    "是",
    "文件",
    "用户",
    "测试",
    "错误",
    "函数",
    "在",
    "我们",
    "需要",
    "返回",
    "这个",
    "修改",
    "运行",
    "代码",
    "数据",
    "检查",
    "如果",
    "没有",
    "请求",
    "服务器",
    "缓存",
    "配置",
    "更新",
    "删除",
    "添加",
    "会话",
    "事件",
    "索引",
    "搜索",
    "结果",
    "问题",
    "为什么",
    "可以",
    "现在",
    "然后",
    "所有",
    "字段",
    "类型",
    "字符串",
    "列表",
    "路径",
    "模块",
    "接口",
    "连接",
    "超时",
    "重试",
    "日志",
    "消息",
    "模型",
    "顺序",
    "大小",
    "原因",
    "例子",
    "失败",
    "成功",
    "并发",
    "线程",
    "锁",
    "队列",
    "提交",
    "分支",
    "版本",
];

impl Language {
    pub(super) fn new(mut random: Random) -> Language {
        // The frequent words stand first, because `pick_rank` draws the first ones most often.
        let mut latin: Vec<Box<str>> = FREQUENT.split_whitespace().map(Into::into).collect();
        while latin.len() < WORDS {
            let mut word = String::new();
            for _ in 0..random.between(2, 4) {
                word.push_str(random.pick_one(ONSETS));
                word.push_str(random.pick_one(VOWELS));
                word.push_str(random.pick_one(CODAS));
            }
            latin.push(word.into());
        }
        Language { latin }
    }

    pub(super) fn pick_word(&self, random: &mut Random, script: Script) -> &str {
        match script {
            Script::Latin => &self.latin[random.pick_rank(WORDS)],
            Script::Cyrillic => CYRILLIC[random.pick_rank(CYRILLIC.len())],
            Script::Chinese => CHINESE[random.pick_rank(CHINESE.len())],
        }
    }

    /// Makes the beginning of a name in a program, rare enough not to occur twice by accident.
    pub(super) fn unusual_word(&self, random: &mut Random) -> &str {
        &self.latin[random.below(WORDS as u64) as usize]
    }

    /// Sentences about a project until there are about `size` bytes of them.
    pub(super) fn write_prose(
        &self,
        random: &mut Random,
        script: Script,
        project: &Project,
        size: usize,
    ) -> String {
        let mut text = String::with_capacity(size + 128);
        while text.len() < size {
            if !text.is_empty() {
                text.push_str(match random.below(12) {
                    0 => "\n\n",
                    1 => "\n- ",
                    _ => " ",
                });
            }
            self.sentence(random, script, project, &mut text);
        }
        text
    }

    fn sentence(&self, random: &mut Random, script: Script, project: &Project, text: &mut String) {
        let start = text.len();
        let words = random.between(5, 18);
        for place in 0..words {
            // Chinese has no spaces between words, which is what makes it hard to search.
            if place > 0 && script != Script::Chinese {
                text.push(' ');
            }
            match random.below(64) {
                0..=4 => {
                    text.push('`');
                    text.push_str(project.identifier(random));
                    text.push('`');
                }
                5 => text.push_str(&project.pick_file(random).path),
                6 => text.push_str(&random.below(5_000).to_string()),
                _ => text.push_str(self.pick_word(random, script)),
            }
            if place + 1 < words && random.one_in(9) {
                text.push_str(if script == Script::Chinese { "，" } else { "," });
            }
        }
        // `None` in the middle of a character: other scripts than Latin keep their first letter.
        if let Some(first) = text.get_mut(start..start + 1) {
            first.make_ascii_uppercase();
        }
        text.push_str(match (script, random.below(8)) {
            (Script::Chinese, 0) => "？",
            (Script::Chinese, _) => "。",
            (_, 0) => "?",
            (_, 1) => ":",
            _ => ".",
        });
    }
}
