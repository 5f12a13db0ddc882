//! Values of names such as `password`.

use crate::check;

#[test]
fn shell_variables_are_redacted() {
    check("export DB_PASSWORD=hunter2", "export DB_PASSWORD=[redacted:password]");
    check("DB_PASSWORD=correcthorse\nX=1", "DB_PASSWORD=[redacted:password]\nX=1");
    check("API_TOKEN=a8f3k2m9 ./run", "API_TOKEN=[redacted:token] ./run");
    check("A_SECRET=ab&cd1!efg next", "A_SECRET=[redacted:secret] next");
}

#[test]
fn colour_is_no_part_of_a_name() {
    check("\u{1b}[33mPASSWORD=letmein", "\u{1b}[33mPASSWORD=[redacted:password]");
}

#[test]
fn json_members_are_redacted() {
    check(r#"{"password": "hunter2"}"#, r#"{"password": "[redacted:password]"}"#);
    check(r#"{"apiKey":"a8f3k2m9q0"}"#, r#"{"apiKey":"[redacted:api_key]"}"#);
    check(r#"{"password":"a \"b"}"#, r#"{"password":"a \"b"}"#);
    check(r#"{"password":"a\"b1"}"#, r#"{"password":"[redacted:password]"}"#);
}

#[test]
fn json_inside_json_is_redacted() {
    check(r#"{\"password\":\"hunter2\"}"#, r#"{\"password\":\"[redacted:password]\"}"#);
    check(r#"\\\"token\\\": \\\"a8f3k2m9\\\","#, r#"\\\"token\\\": \\\"[redacted:token]\\\","#);
    check(r"{\npassword: hunter2\n}", r"{\npassword: [redacted:password]\n}");
}

#[test]
fn settings_and_code_are_redacted() {
    check("password: hunter2", "password: [redacted:password]");
    check("  client_secret = 'a8f3k2m9'", "  client_secret = '[redacted:secret]'");
    check(r#"let password: &str = "hunter2";"#, r#"let password: &str = "[redacted:password]";"#);
    check(r#"config["password"] = "hunter2""#, r#"config["password"] = "[redacted:password]""#);
    check("Server=db;Password=hun;ter2", "Server=db;Password=hun;ter2");
    check("Server=db;Password=hunter2;", "Server=db;Password=[redacted:password];");
    check("<password>hunter 2</password>", "<password>hunter 2</password>");
    check("<password>hunter2</password>", "<password>[redacted:password]</password>");
}

#[test]
fn command_options_are_redacted() {
    check("mysql --password=hunter2 db", "mysql --password=[redacted:password] db");
    check("login --token a8f3k2m9 --now", "login --token [redacted:token] --now");
    check("?access_token=a8f3k2m9&page=2", "?access_token=[redacted:token]&page=2");
}

#[test]
fn phrases_may_have_blanks() {
    check(r#"passphrase = "correct horse battery""#, r#"passphrase = "[redacted:passphrase]""#);
}

#[test]
fn settings_take_any_sign() {
    check("password: Welcome!1", "password: [redacted:password]");
    check("  password: P&ss,w0rd\n  host: db", "  password: [redacted:password]\n  host: db");
    check("app.yml:7:  password: Welcome!1", "app.yml:7:  password: [redacted:password]");
    check("password: Welcome!1 # for tests", "password: [redacted:password] # for tests");
    check(
        r#"{"text":"user: app\npassword: Welcome!1\n"}"#,
        r#"{"text":"user: app\npassword: [redacted:password]\n"}"#,
    );
}

#[test]
fn words_are_passwords_among_settings() {
    check("user: app\npassword: letmein", "user: app\npassword: [redacted:password]");
    check("db:\n  password: letmein\n", "db:\n  password: [redacted:password]\n");
    check("[client]\npassword = letmein\n", "[client]\npassword = [redacted:password]\n");
    check("db.password=letmein\n", "db.password=[redacted:password]\n");
    check("POSTGRES_PASSWORD: postgres\n", "POSTGRES_PASSWORD: [redacted:password]\n");
    check("user: string;\npassword: letmein;", "user: string;\npassword: letmein;");
    check("    user: name,\n    password: word\n}", "    user: name,\n    password: word\n}");
}

#[test]
fn keys_of_any_name_are_redacted() {
    check("ENCRYPTION_KEY=a8f3k2m9q0", "ENCRYPTION_KEY=[redacted:secret]");
    check("ADMIN_KEY=a8f3k2m9q0", "ADMIN_KEY=[redacted:key]");
    check("cache_key=a8f3k2m9q0", "cache_key=a8f3k2m9q0");
    check("PUBLIC_KEY=a8f3k2m9q0", "PUBLIC_KEY=a8f3k2m9q0");
    check("let row_key = a8f3k2m9q0;", "let row_key = a8f3k2m9q0;");
}

#[test]
fn arguments_of_constants_are_redacted() {
    check("define('DB_PASSWORD', 'hunter2');", "define('DB_PASSWORD', '[redacted:password]');");
    check(r#"contains("password", "email")"#, r#"contains("password", "email")"#);
}
